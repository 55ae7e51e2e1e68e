import type { IncomingHttpHeaders } from 'node:http'

export type Fields = Readonly<Record<string, unknown>>

/** How far a request may come: a connection of which nothing was read; all of it; half of the answer written. */
export type Stage = 'connected' | 'whole' | 'half'

/** What becomes of a request that gets no answer: its connection breaks, or stays silent. */
export type Fate = 'cut' | 'hang'

/** What a provider does with a request; default: it answers what was asked. */
export interface Script {
  /** Waits before anything is answered, ms. */
  readonly waitMs?: number
  /** Waits before an answer that is not streamed, and before each chunk but the first, with its number. */
  readonly before?: (chunk: number) => Promise<unknown>
  /** Waits before each chunk, ms. */
  readonly chunkMs?: number
  readonly fate?: Fate
  /** Refuses with this status, as the dialect does where there is no `body`. */
  readonly status?: number
  /** Further headers of the answer. */
  readonly headers?: Readonly<Record<string, string>>
  readonly contentType?: string
  /** Answered as it is; with the fate `cut`, what of an answer comes before the break. */
  readonly body?: string
  /** Text of the answer, cut as it is streamed; of a chat, also as the `delta` of each chunk. */
  readonly deltas?: Iterable<string | Fields>
  /** Sound of the answer, cut as it is streamed. */
  readonly chunks?: readonly Uint8Array[]
  /** Breaks the connection behind so many chunks. */
  readonly cutAfter?: number
  /** Ends the stream well, but without its last events. */
  readonly unfinished?: boolean
  /** The message of a chat's one choice. */
  readonly message?: Fields
  readonly finishReason?: string
  /** Members of the answer beside its choices, and of each chunk; figures of each segment of a transcript. */
  readonly facts?: Fields
  /** The answer's `usage`. */
  readonly usage?: Fields
  /** Each picture; a number: one of so many bytes. */
  readonly picture?: Buffer | number
  readonly video?: VideoScript
}

/** What becomes of a video that was ordered. */
export interface VideoScript {
  /** How often a poll finds it unfinished; 0: the order itself is answered with the finished one. */
  readonly polls?: number
  /** What the job comes to instead of a video. */
  readonly failure?: { readonly code: string; readonly message: string }
  /** Of each fetch in turn; the last one stays. `half` breaks off in the middle. */
  readonly content?: readonly (Fate | number | 'good' | 'half' | 'empty')[]
  readonly bytes?: Buffer
}

export interface ReceivedRequest {
  readonly method: string
  /** With its query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** JSON of the body; null: it had none. */
  readonly body: Fields | null
  /** Text fields of a form. */
  readonly fields: Readonly<Record<string, string>>
  /** Empty when the body names none. */
  readonly model: string
  /** SHA-256 of the form's file, or else of the body. */
  readonly sha256: string
  /** Which mark its body has in it. */
  readonly mark: string | null
  /** Bytes of the chunks that the socket has taken. */
  written: number
  /** `left`: the connection was closed before the answer was given whole. */
  state: 'answering' | 'finished' | 'left'
}

/** An answer that is sent with its length, or in chunks as they are made. */
export interface Answer {
  /** Default: 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly bytes?: Buffer
  readonly chunks?: Iterable<string | Uint8Array>
  /** Waits before each chunk, ms; default: the script's. */
  readonly chunkMs?: number
  /** What ends the chunks well. */
  readonly tail?: readonly string[]
  /** What becomes of it instead, or behind its chunks. */
  readonly fate?: Fate
}

export interface Asked {
  readonly request: ReceivedRequest
  readonly bytes: Buffer
  /** Null when the body is none. */
  readonly form: FormData | null
  readonly script: Script
  /** What another model does. */
  scriptOf(model: string): Script
}

/** What one provider's wire format makes of a request. */
export interface Dialect {
  /** Of the provider's `base_url`. */
  readonly basePath: string
  answer(asked: Asked): Answer | Promise<Answer>
  refuse(status: number): Answer
}

export function jsonAnswer(value: unknown, status = 200, headers: Answer['headers'] = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    bytes: Buffer.from(JSON.stringify(value)),
  }
}

/** Server-sent events; `tail` ends them well. */
export function eventsAnswer(events: Iterable<string>, tail: readonly string[] = []): Answer {
  return { headers: { 'content-type': 'text/event-stream; charset=utf-8' }, chunks: events, tail }
}
