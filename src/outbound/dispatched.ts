import type { Dispatcher } from 'undici'
import { ReplyEncoded } from './failure.ts'

/** A request that undici has taken, to be given up at any moment: also before it has a connection. */
export class Dispatched {
  #controller: Dispatcher.DispatchController | null = null
  #abandoned: Error | null = null

  /** Null until the request has a connection: nothing of it has been sent then. */
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

/**
 * Headers as undici gives them, repeated ones joined.
 *
 * @throws ReplyEncoded for a good answer whose body is compressed: taken as it comes it would be handed on as
 *         the audio or the video that it is not
 */
export function readHeaders(
  status: number,
  headers: Record<string, string | string[] | undefined>,
): Record<string, string> {
  const joined: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) joined[name] = Array.isArray(value) ? value.join(', ') : value
  }
  const encoding = joined['content-encoding']?.trim().toLowerCase() ?? ''
  const plain = encoding === '' || encoding === 'identity'
  if (!plain && status >= 200 && status <= 299) throw new ReplyEncoded()
  return joined
}
