"""Variants: record sets whose images are stored smaller, in another format, or as pixels."""

from recordzoo.recipes.variants.recipe import check_variant, variant_recipe
from recordzoo.recipes.variants.stored import StoredRecipe
from recordzoo.recipes.variants.variant import Variant

__all__ = ["StoredRecipe", "Variant", "check_variant", "variant_recipe"]
