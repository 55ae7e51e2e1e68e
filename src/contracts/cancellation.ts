/** Listener for the end of a call: a function, or an object whose method it is. */
type AbortListener = (() => void) | { handleEvent(): void }

/** The part of an AbortSignal that calls need. An AbortSignal is one. */
export interface CancelSignal {
  readonly aborted: boolean
  /** Undefined until it is aborted. */
  readonly reason: Error | undefined
  throwIfAborted(): void
  addEventListener(type: 'abort', listener: AbortListener, options?: { readonly once?: boolean }): void
  removeEventListener(type: 'abort', listener: AbortListener): void
}

/** Never pushed to. */
const NO_LISTENERS: AbortListener[] = []

/**
 * Signal that its owner aborts, as an AbortController's. One call listens to it in two or three places, and hardly any
 * is aborted: an AbortSignal, with the maps and listener objects of an EventTarget, takes 2 KB of garbage for that.
 */
export class Cancellation implements CancelSignal {
  #aborted = false
  #reason: Error | undefined
  #listeners = NO_LISTENERS
  #controller: AbortController | null = null

  get aborted(): boolean {
    return this.#aborted
  }

  get reason(): Error | undefined {
    return this.#reason
  }

  /** Tells every listener, in the order in which they came, once. */
  abort(reason: Error): void {
    if (this.#aborted) return
    this.#aborted = true
    this.#reason = reason
    this.#controller?.abort(reason)
    const listeners = this.#listeners
    this.#listeners = NO_LISTENERS
    for (const listener of listeners) {
      if (typeof listener === 'function') listener()
      else listener.handleEvent()
    }
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason
  }

  addEventListener(_type: 'abort', listener: AbortListener): void {
    if (this.#aborted || this.#listeners.includes(listener)) return
    // Most have one at a time, and a list that is pushed to takes room for seventeen.
    if (this.#listeners === NO_LISTENERS) this.#listeners = [listener]
    else this.#listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: AbortListener): void {
    const at = this.#listeners.indexOf(listener)
    if (at === -1) return
    if (this.#listeners.length === 1) this.#listeners = NO_LISTENERS
    else this.#listeners.splice(at, 1)
  }

  /** The same as an AbortSignal, for what Node and libraries take. */
  toAbortSignal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#aborted) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }
}

/** The AbortSignal that a signal is, or stands for. */
export function toAbortSignal(signal: CancelSignal): AbortSignal {
  if (signal instanceof AbortSignal) return signal
  if (signal instanceof Cancellation) return signal.toAbortSignal()
  throw new TypeError('neither an AbortSignal nor a Cancellation')
}
