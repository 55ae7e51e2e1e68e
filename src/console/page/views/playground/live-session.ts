import type { LiveMessage } from '../../../../gateway/live/messages.ts'
import { ApiError, apiErrorOf, unreachable } from '../../api.ts'
import { duration, number } from '../../format.ts'
import { type AppKeys, isRefusedKey } from './calls.ts'

/** State of a live session so far. */
export interface LiveText {
  /** In the order in which it came; never changes but at its end. */
  readonly items: readonly LiveItem[]
  /** Unfinished text by its channel. */
  readonly partials: ReadonlyMap<number, string>
  /** The envelope of the whole; null: it has not ended. */
  readonly done: string | null
}

export interface LiveItem {
  readonly kind: 'said' | 'notice'
  readonly text: string
  readonly speaker: string | null
}

export const NO_TEXT: LiveText = { items: [], partials: new Map(), done: null }

/** The state after one more message. */
export function withMessage(before: LiveText, message: LiveMessage): LiveText {
  switch (message.type) {
    case 'partial':
      return { ...before, partials: withPartial(before.partials, message.channel, message.text) }
    case 'final': {
      const { text, speaker = null } = message.segment
      const said = withItem(before, { kind: 'said', text, speaker })
      return { ...said, partials: withPartial(before.partials, message.channel, '') }
    }
    case 'switched':
      return withItem(before, { kind: 'notice', text: switchInWords(message), speaker: null })
    case 'going_away':
      return withItem(before, { kind: 'notice', text: leavingInWords(message), speaker: null })
    case 'done':
      return { ...before, partials: new Map(), done: JSON.stringify(message) }
    default:
      return before
  }
}

/** Unfinished text of all channels. */
export function partialText({ partials }: LiveText): string {
  return [...partials.values()].join(' ')
}

function withItem(before: LiveText, item: LiveItem): LiveText {
  return { ...before, items: [...before.items, item] }
}

function withPartial(before: LiveText['partials'], channel: number, text: string): LiveText['partials'] {
  const partials = new Map(before)
  if (text === '') partials.delete(channel)
  else partials.set(channel, text)
  return partials
}

type Message<Type extends LiveMessage['type']> = Extract<LiveMessage, { readonly type: Type }>

function switchInWords({ from, to, replayed_seconds: replayed, lost_seconds: lost }: Message<'switched'>) {
  const audio = `${number(replayed, 1)} s of audio sent again, ${lost === 0 ? 'none' : `${number(lost, 1)} s`} lost`
  return `Provider switched from ${from.provider}/${from.model} to ${to.provider}/${to.model}: ${audio}.`
}

const LEAVING: Readonly<Record<Message<'going_away'>['reason'], string>> = {
  drain: 'the node is stopping',
  session_limit: 'the longest session allowed is reached',
  credits: 'the credits run out',
  operator: 'it was ended in the console',
}

function leavingInWords({ seconds, reason }: Message<'going_away'>) {
  const when = seconds === 0 ? 'now' : `in ${duration(seconds)}`
  return `The session ends ${when}: ${LEAVING[reason]}.`
}

/** An open session. */
export interface LiveSocket {
  /** @returns false when the connection is too slow: most of what was sent is still here */
  send(piece: Int16Array<ArrayBuffer>): boolean
  /** No more audio comes; `done` is the last message. */
  end(): void
  close(): void
}

interface SocketListener {
  onMessage(message: LiveMessage): void
  /** The session failed, or the connection broke. Not called after `done`. */
  onFailed(error: ApiError): void
}

/** Five seconds of audio at the highest rate. */
const UNSENT_BYTES_MAX = 5 * 48_000 * 2
/** The end of a WebSocket whose session failed: this and the HTTP status of its error. */
const OWN_CODES = 4000

/**
 * Opens a live session. The key goes as a subprotocol, as of any application in a browser: the handshake carries no
 * cookie that counts, so that no page of another origin can open a session in the name of who is signed in here, and
 * the key is in no address and no log.
 *
 * @returns once the session is admitted
 * @throws ApiError; the signal's reason
 */
export function openSession(
  keys: AppKeys,
  app: string,
  sampleRate: number,
  signal: AbortSignal,
  listener: SocketListener,
): Promise<LiveSocket> {
  return keys.call(app, signal, (key) => connect(key, sampleRate, signal, listener), isRefusedKey)
}

function connect(
  key: string,
  sampleRate: number,
  signal: AbortSignal,
  { onMessage, onFailed }: SocketListener,
): Promise<LiveSocket> {
  const url = new URL(`/v1/transcription/stream?errors=in_band&sample_rate=${sampleRate}`, location.href)
  url.protocol = url.protocol.replace('http', 'ws')
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, ['larkway.v1', `larkway.key.${key}`])
    const abort = () => {
      socket.close()
      reject(signal.reason)
    }
    signal.addEventListener('abort', abort)
    let state: 'opening' | 'open' | 'done' = 'opening'
    let refusal: string | null = null
    socket.onmessage = ({ data }: MessageEvent<string>) => {
      const message = JSON.parse(data) as LiveMessage | { readonly type: 'error' }
      if (message.type === 'error') {
        refusal = data
        return
      }
      if (message.type === 'ready') {
        state = 'open'
        resolve(liveSocket(socket))
      }
      if (message.type === 'done') state = 'done'
      onMessage(message)
    }
    socket.onclose = ({ code }) => {
      signal.removeEventListener('abort', abort)
      if (state === 'done' || signal.aborted) return
      const error = closeError(code, refusal, state === 'open')
      if (state === 'opening') reject(error)
      else onFailed(error)
    }
  })
}

function closeError(code: number, refusal: string | null, wasOpen: boolean): ApiError {
  if (refusal !== null) return apiErrorOf(code > OWN_CODES ? code - OWN_CODES : 503, refusal, null)
  if (!wasOpen) return unreachable()
  return new ApiError('the connection broke', { code: 'UNREACHABLE', status: 0 })
}

function liveSocket(socket: WebSocket): LiveSocket {
  return {
    send(piece) {
      if (socket.readyState === WebSocket.OPEN) socket.send(piece)
      return socket.bufferedAmount <= UNSENT_BYTES_MAX
    },
    end() {
      if (socket.readyState === WebSocket.OPEN) socket.send('{"type":"end"}')
    },
    close: () => socket.close(),
  }
}
