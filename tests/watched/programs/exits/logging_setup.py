"""Logging set up by dictConfig, an excepthook and a thread's excepthook of its own, faulthandler, weak references."""
# slow
# true: GS301 the program dies on purpose

import faulthandler
import gc
import logging.config
import sys
import threading
import weakref

import torch

faulthandler.enable()
logging.config.dictConfig(
    {
        "version": 1,
        "disable_existing_loggers": True,
        "formatters": {"short": {"format": "%(levelname)s %(name)s %(message)s"}},
        "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "short"}},
        "root": {"level": "DEBUG", "handlers": ["err"]},
    }
)
log = logging.getLogger("train")
sys.excepthook = lambda kind, error, trace: log.critical("died of %s: %s", kind.__name__, error)
threading.excepthook = lambda args: log.error("thread died of %s", args.exc_type.__name__)
w = torch.ones(3, requires_grad=True)
loss = (w * 2).sum()
gone = [weakref.ref(loss)]
loss.backward()
log.info("grad %s", w.grad.tolist())
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
del loss
gc.collect()
log.debug("freed %s", [ref() is None for ref in gone])
logging.captureWarnings(True)
import warnings

warnings.warn("to the log")
raise LookupError("the end")
