import type { Dispatcher } from 'undici'

/** A request that undici has taken, to be given up at any moment: also before it has a connection. */
export class Dispatched {
  #controller: Dispatcher.DispatchController | null = null
  #abandoned: Error | null = null

  /** Null until the request has a connection. */
  get controller(): Dispatcher.DispatchController | null {
    return this.#controller
  }

  start(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#abandoned !== null) controller.abort(this.#abandoned)
  }

  /** Ends the request, wherever it is; its connection is not used again. */
  abort(reason: Error): void {
    this.#abandoned = reason
    this.#controller?.abort(reason)
  }
}

/** Headers as undici gives them, repeated ones joined. */
export function joinHeaders(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const joined: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) joined[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return joined
}
