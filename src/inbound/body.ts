import { GatewayError } from '../errors.ts'
import { newId } from '../ids.ts'
import type { Limits } from '../limits.ts'
import type { AudioRef, StoredBody } from '../schema/audio.ts'
import type { BodyWriter, Spool } from '../schema/spool.ts'
import type { Exchange } from './exchange.ts'
import type { Fields } from './form.ts'
import { contentTypeOf, readBody, refuseDeclared } from './intake.ts'
import { JsonAudioScanner } from './json-audio.ts'
import { MultipartScanner } from './multipart.ts'
import { RawAudioScanner } from './raw-audio.ts'
import { invalid } from './refusals.ts'
import type { AudioTap, BodyScanner, ScannedBody } from './scanner.ts'

export interface ReceiveOptions {
  readonly spool: Spool
  readonly limits: Limits
  readonly workspace: string
  /** The job that the body is for: an object that it goes into is that job's, and is on the disk when it is there. */
  readonly job?: string
  /** Is given the audio as it stands in the body while it streams past; see `PassingDigest`. */
  readonly passing?: AudioTap
}

/** A call's fields, and its audio at rest. */
export interface ReceivedAudio {
  readonly fields: Fields
  readonly source:
    | { readonly kind: 'audio'; readonly audio: AudioRef }
    | { readonly kind: 'url'; readonly url: string }
    | { readonly kind: 'none' }
  /** What the audio is a range of; null when none came along. */
  readonly body: StoredBody | null
  /** Gives back what the body holds. Idempotent; see StoredBody. */
  release(): void
}

/**
 * Streams a request body into the spool and finds the fields and the audio in it on the way. No byte of the
 * audio is kept here, and a body that is refused, cut short or given up leaves nothing behind.
 *
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE; INVALID_REQUEST, naming the field; REQUEST_TOO_LARGE and
 *         AUDIO_TOO_LARGE with `details` {limit, limit_bytes, received_bytes}, whichever limit is crossed
 *         first; OVERLOADED and DEPENDENCY_UNAVAILABLE from the spool; REQUEST_TIMEOUT; CLIENT_CLOSED
 */
export async function receiveAudio(exchange: Exchange, options: ReceiveOptions): Promise<ReceivedAudio> {
  const received = await receiveFields(exchange, options)
  if (received.source.kind === 'none') throw noAudio(received.fields)
  return received
}

/** What a body lacks that had to bring audio. */
export function noAudio({ kind }: Fields): GatewayError {
  const how = kind === 'json' ? 'as audio.base64, audio.data or audio.url' : 'as a part named file or audio'
  return invalid(`send the audio ${how}`, 'audio')
}

/**
 * The same for a body whose fields tell whether there must be audio.
 *
 * @throws GatewayError as `receiveAudio`
 */
export async function receiveFields(exchange: Exchange, options: ReceiveOptions): Promise<ReceivedAudio> {
  refuseDeclared(exchange, options.limits.max_request_body_bytes)
  const reception = new Reception(exchange, scannerFor(exchange, options), options)
  try {
    return await reception.run()
  } catch (error) {
    reception.abandon()
    throw error
  }
}

/** @throws GatewayError UNSUPPORTED_MEDIA_TYPE, and INVALID_REQUEST from the scanners */
function scannerFor(exchange: Exchange, { limits, passing }: ReceiveOptions): BodyScanner {
  const contentType = contentTypeOf(exchange)
  if (contentType !== null) {
    const { value } = contentType
    if (value === 'multipart/form-data') return new MultipartScanner(contentType, limits, passing)
    if (value === 'application/json') return new JsonAudioScanner(limits, passing)
    if (/^audio\/./.test(value) || value === 'application/octet-stream') {
      return new RawAudioScanner(exchange, limits, passing)
    }
  }
  throw new GatewayError(
    'UNSUPPORTED_MEDIA_TYPE',
    'send multipart/form-data, application/json, audio/* or application/octet-stream, uncompressed',
  )
}

/** One body on its way from the socket through its scanner into the spool. */
class Reception {
  readonly #exchange: Exchange
  readonly #scanner: BodyScanner
  readonly #writer: BodyWriter
  readonly #maxBytes: number
  /** Aborts with whatever ends the reception early: the client, the store, a refusal. */
  readonly #failure = new AbortController()
  #scanned: ScannedBody | null = null
  #started: Promise<void> | null = null

  constructor(exchange: Exchange, scanner: BodyScanner, options: ReceiveOptions) {
    const { spool, limits, workspace, job } = options
    this.#exchange = exchange
    this.#scanner = scanner
    this.#maxBytes = limits.max_request_body_bytes
    // Not the request's id: callers choose that one and repeat it, and it becomes part of an object key.
    const filed = job === undefined ? { id: newId('req') } : ({ id: job, kind: 'job' } as const)
    this.#writer = spool.open({ workspace, contentLength: exchange.contentLength, ...filed })
    this.#writer.onReady = () => exchange.body.resume()
    this.#writer.onFailure = (error) => this.#failure.abort(error)
  }

  async run(): Promise<ReceivedAudio> {
    const { signal } = this.#exchange
    const leave = () => this.#failure.abort(signal.reason)
    signal.throwIfAborted()
    signal.addEventListener('abort', leave, { once: true })
    try {
      await readBody(this.#exchange, this.#maxBytes, this.#failure.signal, (view, last) =>
        this.#take(view, last),
      )
      return await this.#store(this.#scanned!)
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** Drops what the writer holds. Not waited for: an answer must not depend on a store that hangs. */
  abandon(): void {
    this.#writer.onReady = () => {}
    // An upload that even abort cannot end is swept later.
    this.#writer.abort().catch(() => {})
  }

  /**
   * Storing begins with the first chunk that was scanned without fault, so a request of headers alone
   * reserves nothing, and a small body that is refused or carries a URL never reaches the spool.
   */
  #take(view: Buffer, last: boolean): void {
    this.#scanner.scan(view)
    if (last) this.#scanned = this.#scanner.finish()
    if (this.#scanned !== null && this.#scanned.source.kind !== 'audio') return
    this.#started ??= this.#writer.start().catch((error) => this.#failure.abort(error))
    this.#writer.write(view)
    if (!last && !this.#writer.ready) this.#exchange.body.pause()
  }

  async #store({ fields, source }: ScannedBody): Promise<ReceivedAudio> {
    if (source.kind !== 'audio') {
      this.abandon()
      return { fields, source, body: null, release() {} }
    }
    await this.#unlessFailed(this.#started!)
    const finishing = this.#writer.finish()
    const body = await this.#unlessFailed(finishing).catch((error) => {
      finishing.then((late) => late.release()).catch(() => {})
      throw error
    })
    const audio: AudioRef = { ...source.audio, source: body.source }
    return { fields, source: { kind: 'audio', audio }, body, release: () => body.release() }
  }

  async #unlessFailed<Value>(work: Promise<Value>): Promise<Value> {
    const { signal } = this.#failure
    const failed = Promise.withResolvers<never>()
    const fail = () => failed.reject(signal.reason)
    if (signal.aborted) fail()
    signal.addEventListener('abort', fail, { once: true })
    try {
      return await Promise.race([failed.promise, work])
    } finally {
      signal.removeEventListener('abort', fail)
    }
  }
}
