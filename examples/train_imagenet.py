"""Train an image classifier on ImageNet, or on any folders of images: on GPUs or CPUs, on one rank or many.

    torchrun --standalone --nproc-per-node=8 examples/train_imagenet.py --data data --arch resnet50 --resume

`--data` is what `ImageNetRecord` takes; or a folder with class folders (or record sets of them) named train and val.

A checkpoint is written every `--save-every` steps, at the end of each epoch, and on SIGTERM. `--resume` goes on from
it, within an epoch too, on any number of ranks: no sample of that epoch is left out or comes twice.
"""

import argparse
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Subset
from torchvision import models
from torchvision import transforms as T

from recordzoo import ImageFolderRecord, ImageNetRecord, RecordLoader, RecordSampler

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def parse_arguments() -> argparse.Namespace:
    """Read the command line; the defaults are torchvision's recipe for resnet50, which takes 256 images a step."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--data", default="data", help="where the images are")
    add("--variant", help="a smaller variant of the record sets, such as 256")
    add("--arch", default="resnet50", help="any classifier of torchvision.models")
    add("--epochs", type=int, default=90)
    add("--batch-size", type=int, default=256, help="images in a step, over all ranks together")
    add("--lr", type=float, default=0.1, help="learning rate for that batch size")
    add("--schedule", choices=("step", "cosine"), default="step", help="step: a tenth every 30 epochs")
    add("--warmup-epochs", type=float, default=0.0)
    add("--momentum", type=float, default=0.9)
    add("--weight-decay", type=float, default=1e-4)
    add("--label-smoothing", type=float, default=0.0)
    add("--size", type=int, default=224, help="side of a crop, in pixels")
    add("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision, on GPUs only")
    add("--shuffle", choices=("samples", "block"), default="samples", help="block: for data larger than memory")
    add("--precision", choices=("exact", "fast"), default="exact", help="how images are decoded and resized")
    add("--workers", type=int, help="threads that make batches, for each rank; default: its share of the cores")
    add("--seed", type=int, default=0)
    add("--checkpoint", type=Path, default="checkpoint.pt", help="the file that is written, and resumed from")
    add("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    add("--save-every", type=int, default=1000, help="steps between checkpoints")
    add("--print-every", type=int, default=100, help="steps between lines")
    args = parser.parse_args()
    if args.checkpoint.exists() and not args.resume:
        parser.error(f"{args.checkpoint} exists: --resume goes on from it; or name another --checkpoint")
    args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    return args


def make_transform(size: int, *, is_training: bool) -> T.Compose:
    """Return the usual transforms of ImageNet; `RecordLoader` decodes only what the crop keeps."""
    crop = (
        [T.RandomResizedCrop(size), T.RandomHorizontalFlip()]
        if is_training
        else [T.Resize(size * 256 // 224), T.CenterCrop(size)]
    )
    return T.Compose([*crop, T.ToTensor(), T.Normalize(MEAN, STD)])


def open_split(data: str, split: Literal["train", "val"], transform: T.Compose, variant: str | None = None) -> Any:
    """Open "train" or "val": of folders or record sets with these names, otherwise of ImageNet in any form."""
    folder = Path(data, split)
    is_own = folder.is_dir() or folder.with_name(f"{split}.records").is_dir()
    if is_own and not any(Path(data).glob(f"imagenet.{split}*.records")):
        return ImageFolderRecord(folder, transform, variant=variant)
    return ImageNetRecord(data, split, transform=transform, variant=variant)


def learning_rate(args: argparse.Namespace, epoch: int, fraction: float) -> float:
    """Return the learning rate at a fraction of an epoch: a function without state, so nothing of it is saved."""
    progress = epoch + fraction
    if progress < args.warmup_epochs:
        return float(args.lr * progress / args.warmup_epochs)
    if args.schedule == "step":
        return float(args.lr * 0.1 ** (epoch // 30))
    rest = (progress - args.warmup_epochs) / max(1e-9, args.epochs - args.warmup_epochs)
    return float(args.lr * 0.5 * (1 + math.cos(math.pi * min(1.0, rest))))


@dataclass
class Training:
    """What is trained, and how far it is: everything that a checkpoint holds, and how it is trained."""

    args: argparse.Namespace
    device: torch.device
    model: DistributedDataParallel
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    sampler: RecordSampler
    loader: RecordLoader
    val_loader: RecordLoader
    stop: threading.Event

    def _parts(self) -> dict[str, Any]:
        return {"model": self.model.module, "optimizer": self.optimizer, "scaler": self.scaler, "loader": self.loader}

    def save(self) -> None:
        """Replace the checkpoint: one rank writes it, because all have the same state."""
        if distributed.get_rank() == 0:
            temporary = self.args.checkpoint.with_suffix(".tmp")
            torch.save({name: part.state_dict() for name, part in self._parts().items()}, temporary)
            os.replace(temporary, self.args.checkpoint)

    def resume(self) -> None:
        """Go on from the checkpoint."""
        state = torch.load(self.args.checkpoint, map_location=self.device)
        for name, part in self._parts().items():
            part.load_state_dict(state[name])

    def autocast(self) -> torch.autocast:
        """Return the context of the forward pass: mixed precision on a GPU."""
        dtype = torch.float16 if self.scaler.is_enabled() else torch.bfloat16
        return torch.autocast(self.device.type, dtype, enabled=self.args.amp and self.device.type == "cuda")

    def must_stop(self) -> bool:
        """Whether a rank got SIGTERM: all ranks must leave the epoch at the same step, or some would wait for ever."""
        flag = torch.tensor(float(self.stop.is_set()))
        distributed.all_reduce(flag, distributed.ReduceOp.MAX)
        return bool(flag)


def join_ranks() -> torch.device:
    """Join the ranks that torchrun has started, or be the only one without it; return this rank's device."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}.items():
        os.environ.setdefault(name, value)
    if not torch.cuda.is_available():
        distributed.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    torch.backends.cudnn.benchmark = True
    distributed.init_process_group("cpu:gloo,cuda:nccl")
    return device


def make_training(args: argparse.Namespace) -> Training:
    """Open the data, join the other ranks, and make model, optimizer and loaders."""
    train = open_split(args.data, "train", make_transform(args.size, is_training=True), args.variant)
    val = open_split(args.data, "val", make_transform(args.size, is_training=False), args.variant)

    device = join_ranks()
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    batch_size = -(-args.batch_size // ranks)  # of each rank
    sampler = RecordSampler(train, shuffle="block" if args.shuffle == "block" else True, seed=args.seed)
    # Every W-th image for each of W ranks, none repeated: so the accuracy does not depend on the number of ranks.
    share = Subset(val, range(rank, len(val), ranks))
    whole_share = RecordSampler(share, shuffle=False, num_replicas=1, rank=0)
    options: dict[str, Any] = {"num_workers": args.workers, "device": device, "precision": args.precision}
    options["memory_format"] = torch.channels_last
    loader = RecordLoader(train, batch_size, sampler=sampler, **options)
    val_loader = RecordLoader(share, batch_size, sampler=whole_share, **options)

    torch.manual_seed(args.seed + rank)  # of dropout; the weights are rank 0's
    model = models.get_model(args.arch, weights=None, num_classes=len(train.classes))
    model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, args.momentum, weight_decay=args.weight_decay)
    # GPUs without bfloat16 take float16, which needs a scaler.
    use_amp = args.amp and device.type == "cuda"
    needs_scaler = use_amp and not torch.cuda.is_bf16_supported(including_emulation=False)
    scaler = torch.amp.GradScaler(device.type, enabled=needs_scaler)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    say(f"{len(train):,} + {len(val):,} images, {len(train.classes):,} classes; {ranks} ranks x {batch_size} images")
    return Training(args, device, DistributedDataParallel(model), optimizer, scaler, sampler, loader, val_loader, stop)


class TimedWaits:
    """Batches of a loader, and the seconds that were spent waiting for them."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Any]:
        began = time.perf_counter()
        for batch in self._loader:
            self.seconds += time.perf_counter() - began
            yield batch
            began = time.perf_counter()
        self.seconds += time.perf_counter() - began


def train_epoch(run: Training, epoch: int) -> bool:
    """Train until the epoch is over, or until SIGTERM; return whether it is over."""
    args, length = run.args, len(run.loader.dataset)
    criterion = nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
    run.model.train()  # type: ignore[no-untyped-call]  # torch's own
    began, images_seen, is_over = time.perf_counter(), 0, True
    batches = TimedWaits(run.loader)
    for step, (images, labels) in enumerate(batches, start=1):
        for group in run.optimizer.param_groups:
            group["lr"] = learning_rate(args, epoch, min(1.0, run.sampler.consumed / length))
        with run.autocast():
            loss = criterion(run.model(images), labels)
        run.optimizer.zero_grad()
        run.scaler.scale(loss).backward()
        run.scaler.step(run.optimizer)
        run.scaler.update()
        images_seen += len(images) * distributed.get_world_size()
        if step % args.print_every == 0:
            speed = images_seen / (time.perf_counter() - began)
            say(f"epoch {epoch}: {run.sampler.consumed:,} of {length:,}, loss {loss.item():.3f}, {speed:,.0f} images/s")
        if run.must_stop():
            is_over = run.sampler.consumed >= length
            break
        if step % args.save_every == 0:
            run.save()
    waited = torch.tensor(batches.seconds / (time.perf_counter() - began))
    distributed.all_reduce(waited, distributed.ReduceOp.MAX)  # the slowest rank holds up the others
    say(f"epoch {epoch}: {images_seen:,} images, data wait {waited.item():.0%}")
    return is_over


@torch.no_grad()
def evaluate(run: Training) -> str:
    """Return loss and accuracy over all validation images, each of which is counted once."""
    model = run.model.module  # not DistributedDataParallel: ranks may have different numbers of batches
    for buffer in model.buffers():
        distributed.broadcast(buffer, 0)  # each rank has statistics of its own batches; those of rank 0 are saved
    model.eval()
    sums = torch.zeros(4, dtype=torch.float64, device=run.device)  # images, loss, top-1, top-5
    for images, labels in run.val_loader:
        with run.autocast():
            found = model(images).float()
        best = found.topk(min(5, found.shape[1])).indices == labels[:, None]
        loss = nn.functional.cross_entropy(found, labels, reduction="sum")
        sums += torch.stack([torch.tensor(float(len(labels))).to(loss), loss, best[:, 0].sum(), best.sum()])
    distributed.all_reduce(sums)
    count, loss_sum, top_1, top_5 = sums.tolist()
    return f"loss {loss_sum / count:.3f}, top-1 {top_1 / count:.2%}, top-5 {top_5 / count:.2%} of {count:,.0f} images"


def say(text: str) -> None:
    """Print a line, once for all ranks."""
    if distributed.get_rank() == 0:
        print(text, flush=True)


def main() -> int:
    """Train, and return the exit code: that of SIGTERM if it stopped the training."""
    args = parse_arguments()
    run = make_training(args)
    if args.checkpoint.exists():
        run.resume()
        say(f"resumed in epoch {run.sampler.epoch}, behind {run.sampler.consumed:,} images")
    if run.sampler.epoch >= args.epochs:  # nothing to train; with --epochs 0, on purpose
        say(evaluate(run))
    is_stopped = False
    for epoch in range(run.sampler.epoch, args.epochs):
        is_over = train_epoch(run, epoch)
        run.save()
        if is_over:
            say(f"epoch {epoch}: {evaluate(run)}")
        if is_stopped := run.must_stop():
            say(f"stopped by SIGTERM; {args.checkpoint} is written: --resume goes on from it")
            break
    distributed.destroy_process_group()
    return 128 + signal.SIGTERM if is_stopped else 0


if __name__ == "__main__":
    sys.exit(main())
