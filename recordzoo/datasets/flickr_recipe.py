"""How Flickr8k and Flickr30k become records: all images, and whichever caption files are beside them."""

from recordzoo.recipes.annotated import AnnotatedRecipe


class Flickr8k(AnnotatedRecipe):
    """The authors' folder, which is called so; captions from their archive of texts, or saved from their page."""

    folder = "Flicker8k_Dataset/"
    annotations = ("8k-pictures.html", "Flickr8k.token.txt", "Flickr8k_text/Flickr8k.token.txt")


class Flickr30k(AnnotatedRecipe):
    """The authors' folder; captions from their own archive, if it was unpacked there, or those of Karpathy's splits."""

    folder = "flickr30k-images/"
    annotations = ("results_20130124.token", "dataset_flickr30k.json", "caption_datasets/dataset_flickr30k.json")


RECIPES = {"flickr8k": Flickr8k, "flickr30k": Flickr30k}
