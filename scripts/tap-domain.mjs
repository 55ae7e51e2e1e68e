// Replaces, in the bundle of tap (type-cache.mjs), the package `async-hook-domain`: hands an uncaught error to the test
// that it belongs to. The package follows every promise, timer and socket of the process by async hooks to know whose
// one is, which costs a test that has a gateway in its process a good part of its CPU. The tests of a file run one
// after another; here the error is that of the test that runs, as that of an earlier one's remains would be.

/** Where tap keeps its root. */
const TAP = Symbol.for('TAP private constructor')

const live = new Set()
const emit = process.emit

/** Tap makes one for each of its tests; it ends with the test. */
export class Domain {
  destroyed = false

  /** @param onerror told an uncaught error, and how it came: 'uncaughtException' or 'unhandledRejection' */
  constructor(onerror) {
    this.onerror = onerror
    if (live.size === 0) {
      process.on('uncaughtExceptionMonitor', handOver)
      process.emit = emitUnhandled
    }
    live.add(this)
  }

  destroy() {
    this.destroyed = true
    if (!live.delete(this) || live.size > 0) return
    process.off('uncaughtExceptionMonitor', handOver)
    process.emit = emit
  }
}

/** The domain of the innermost test that runs and has not failed by an error before; undefined: all have ended. */
function currentDomain() {
  let found
  for (let test = globalThis[TAP]; test !== undefined; test = [...(test.activeSubtests ?? [])].at(-1)) {
    if (!test.hookDomain.destroyed) found = test.hookDomain
  }
  return found
}

/** @returns whether a test took the error; otherwise it ends the process, as Node would by itself */
function accept(error, origin) {
  const isAnothers =
    process.hasUncaughtExceptionCaptureCallback() || process.listenerCount('uncaughtException') > 0
  const domain = isAnothers ? undefined : currentDomain()
  if (domain === undefined) return false
  try {
    domain.onerror(error, origin)
    return true
  } catch (thrown) {
    domain.destroy()
    if (accept(thrown, origin)) return true
    throw thrown
  }
}

function handOver(error, origin) {
  if (!accept(error, origin)) return
  // Once, so that this error does not end the process.
  process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null))
}

/** Without a listener, which tested code would find. */
function emitUnhandled(event, ...args) {
  if (event !== 'unhandledRejection' || process.listenerCount(event) > 0)
    return emit.call(process, event, ...args)
  return accept(args[0], event)
}
