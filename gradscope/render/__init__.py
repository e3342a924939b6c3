"""One scene in, text or pixels out. Called as a function, it is `pictures.render`."""

from gradscope import make_callable

make_callable(__name__)
