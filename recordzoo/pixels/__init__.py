"""Operations on the pixels of an image, compiled: each is a short function, and gives what Pillow gives.

A pixel is a uint32: red in the lowest byte, then green and blue; the highest byte has no meaning. An operation takes
``(source, target, numbers)``: two images, uint32 [H, W], and up to eight numbers, float64; it writes all of the target.
"""
