import type { ArrivingBody, AudioRef, StoredBody } from '../../contracts/audio.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { newId } from '../../contracts/ids.ts'
import type { Limits } from '../../contracts/limits.ts'
import type { BodyWriter, Spool, SpoolOptions } from '../../contracts/spool.ts'
import { unlessAborted } from '../../contracts/time.ts'
import type { Exchange } from './exchange.ts'
import { FieldReader, type Fields, withoutFields } from './form.ts'
import { JsonAudioScanner } from './json-audio.ts'
import { MultipartScanner } from './multipart.ts'
import { contentTypeOf, readBody, refuseDeclared } from './read-body.ts'
import { invalid, invalidField, MUST } from './refusals.ts'
import { type AudioTap, type BodyScanner, RawAudioScanner, type ScannedBody } from './scanner.ts'

export interface ReceiveOptions {
  readonly spool: Spool
  readonly limits: Limits
  readonly workspace: string
  /** The job that the body is for: an object that it goes into is that job's, and is on the disk when it is there. */
  readonly job?: string
  /** The upload that the body is, by its own id: the same, for audio that is sent ahead of its jobs. */
  readonly upload?: string
  /** An object that it goes into is sealed, see `SpoolOptions`. */
  readonly sealed?: boolean
  /** Absent: the body is kept. */
  readonly unneeded?: Unneeded
  /**
   * Hears of audio that is still coming, with its place in the body and the fields that were foreseen. Only the
   * reception tells whether the body comes whole, and is that.
   */
  readonly onArriving?: (arriving: ArrivingAudio) => void
  /** Absent: the gateway's own. */
  readonly layout?: BodyLayout
}

/** Place of the audio in a wire format other than the gateway's own. */
export interface BodyLayout {
  /**
   * `raw`: a body that is not JSON is the audio itself, whatever its type is, or without one. `form`: there are forms
   * alone.
   */
  readonly form: 'raw' | 'form'
  /** Fields that name where the audio is fetched from. */
  readonly urlFields: readonly string[]
  /** Tells a caller without audio how to send it. */
  readonly missing: string
}

export interface ArrivingAudio {
  readonly fields: Fields
  readonly audio: AudioRef
  readonly body: ArrivingBody
}

/** For a body that is only looked at, unless it turns out to be needed. */
export interface Unneeded {
  /** Takes what is not needed, and keeps nothing. */
  readonly spool: Spool
  /** Takes the audio of such a body as it was sent, while it streams past; see `PassingDigest`. */
  readonly passing: AudioTap
  /**
   * Flag among the fields with which the body is needed after all; null: there is none. It counts before the audio:
   * a body whose audio comes first is kept, since the flag may follow.
   */
  readonly unless: string | null
}

/** A call's fields, and its audio at rest. */
export interface ReceivedAudio {
  readonly fields: Fields
  readonly source:
    | { readonly kind: 'audio'; readonly audio: AudioRef }
    | { readonly kind: 'url'; readonly url: string }
    | { readonly kind: 'none' }
  /** The stored body that the audio is a range of; null without audio. */
  readonly body: StoredBody | null
  /** False: it was not needed, and its audio is gone. */
  readonly kept: boolean
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
  if (received.source.kind === 'none') throw noAudioField(received.fields, options.layout)
  return received
}

/** Refuses a body that needs audio and has none. */
export function noAudioField({ kind }: Fields, layout?: BodyLayout): GatewayError {
  if (layout !== undefined) return invalid(layout.missing, 'audio')
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
  const reception = new Reception(exchange, options)
  try {
    return await reception.run()
  } catch (error) {
    reception.abandon()
    throw error
  }
}

/** @throws GatewayError UNSUPPORTED_MEDIA_TYPE, and INVALID_REQUEST from the scanners */
function scannerFor(
  exchange: Exchange,
  { limits, layout }: Pick<ReceiveOptions, 'limits' | 'layout'>,
  tap: AudioTap | undefined,
): BodyScanner {
  const contentType = contentTypeOf(exchange)
  const { 'content-type': type, 'content-encoding': coding } = exchange.headers
  if (layout?.form === 'raw' && type === undefined && coding === undefined)
    return new RawAudioScanner(exchange, limits, tap)
  if (contentType !== null) {
    const { value } = contentType
    if (value === 'multipart/form-data' && layout?.form !== 'raw')
      return new MultipartScanner(contentType, limits, tap)
    if (layout?.form === 'form')
      throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'send multipart/form-data, uncompressed')
    if (value === 'application/json') return new JsonAudioScanner(limits, tap)
    if (layout?.form === 'raw') return new RawAudioScanner(exchange, limits, tap)
    if (/^audio\/./.test(value) || value === 'application/octet-stream') {
      return new RawAudioScanner(exchange, limits, tap)
    }
  }
  throw new GatewayError(
    'UNSUPPORTED_MEDIA_TYPE',
    'send multipart/form-data, application/json, audio/* or application/octet-stream, uncompressed',
  )
}

/** @throws GatewayError INVALID_REQUEST when there is more than one source, or one is where this format has none */
function withUrl(scanned: ScannedBody, { urlFields, missing }: BodyLayout): ScannedBody {
  const { fields, source } = scanned
  if (fields.kind === 'json' && source.kind !== 'none') throw invalid(missing, 'audio')
  const reader = new FieldReader(fields)
  const named = urlFields.flatMap((name) => {
    const url = reader.string(name)
    return url === null ? [] : [{ name, url }]
  })
  const [first, second] = named
  if (first === undefined) return scanned
  if (second !== undefined) throw invalidField(second.name, MUST.beLeftOut(`send \`${first.name}\` alone`))
  if (source.kind !== 'none') throw invalidField(first.name, MUST.beLeftOut('the audio was sent'))
  return { fields: withoutFields(fields, urlFields), source: { kind: 'url', url: first.url } }
}

function filedUnder({ job, upload }: ReceiveOptions): Pick<SpoolOptions, 'id' | 'kind'> {
  if (job !== undefined) return { id: job, kind: 'job' }
  if (upload !== undefined) return { id: upload, kind: 'upload' }
  // Not the request's id: callers choose that one and repeat it, and it becomes part of an object key.
  return { id: newId('req') }
}

/** A taker by length has no audio before its last byte is there, so this much waits for the verdict. */
const HELD_BACK_BYTES = 1

/** One body on its way from the socket through its scanner into the spool. */
class Reception {
  readonly #exchange: Exchange
  readonly #options: ReceiveOptions
  readonly #scanner: BodyScanner
  /** Null: the beginning of its audio decides it. */
  #kept: boolean | null
  #writer: BodyWriter
  /** Aborts with whatever ends the reception early: the client, the store, a refusal. */
  readonly #failure = new AbortController()
  #scanned: ScannedBody | null = null
  #started: Promise<void> | null = null
  /** The body as it comes, until its audio is announced; null: it is not to be. */
  #arriving: ArrivingBody | null = null

  /** @throws GatewayError as `scannerFor` */
  constructor(exchange: Exchange, options: ReceiveOptions) {
    const { spool, unneeded } = options
    this.#exchange = exchange
    this.#options = options
    this.#kept = unneeded === undefined ? true : unneeded.unless === null ? false : null
    const tap = unneeded && { take: this.#passOn.bind(this, unneeded) }
    this.#scanner = scannerFor(exchange, options, tap)
    this.#writer = this.#open(this.#kept === false ? unneeded!.spool : spool)
  }

  async run(): Promise<ReceivedAudio> {
    const { signal } = this.#exchange
    const maxBytes = this.#options.limits.max_request_body_bytes
    const leave = () => this.#failure.abort(signal.reason)
    signal.throwIfAborted()
    signal.addEventListener('abort', leave, { once: true })
    try {
      const take = (view: Buffer, last: boolean) => this.#scan(view, last)
      await readBody(this.#exchange, maxBytes, this.#failure.signal, { take })
      return await this.#store(this.#scanned!)
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  /** Drops what the writer holds. Not waited for: an answer must not depend on a store that hangs. */
  abandon(): void {
    this.#writer.onReady = this.#writer.onFailure = () => {}
    // An upload that even abort cannot end is swept later.
    this.#writer.abort().catch(() => {})
  }

  #open(spool: Spool): BodyWriter {
    const { workspace, sealed = false } = this.#options
    const filed = filedUnder(this.#options)
    const { contentLength } = this.#exchange
    const sendingMs = () => this.#exchange.bodyMs
    const writer = spool.open({ workspace, contentLength, sealed, sendingMs, ...filed })
    writer.onReady = () => this.#exchange.body.resume()
    writer.onFailure = (error) => this.#failure.abort(error)
    return writer
  }

  /** Is given the audio of a body that may not be needed, and judges by the fields before it. */
  #passOn({ unless, passing }: Unneeded, ...audio: Parameters<AudioTap['take']>): void {
    this.#kept ??= this.#scanner.flag(unless!) !== false
    if (!this.#kept) passing.take(...audio)
  }

  /**
   * Storing begins with the first chunk that was scanned without fault, so a request of headers alone
   * reserves nothing, and a small body that is refused or carries a URL never reaches the spool.
   */
  #scan(view: Buffer, last: boolean): void {
    const wasOpen = this.#kept === null
    this.#scanner.scan(view)
    if (last) this.#scanned = this.#finish()
    if (this.#scanned !== null && this.#scanned.source.kind !== 'audio') return
    if (wasOpen && this.#kept === false) this.#forget()
    // Before the start, which may send the body to the store at once.
    if (this.#started === null && !last) this.#openArriving()
    this.#started ??= this.#start(this.#writer)
    this.#writer.write(view)
    if (this.#arriving !== null && !last) this.#tellArriving(this.#arriving)
    if (!last && !this.#writer.ready) this.#exchange.body.pause()
  }

  #finish(): ScannedBody {
    const { layout } = this.#options
    const scanned = this.#scanner.finish()
    return layout === undefined ? scanned : withUrl(scanned, layout)
  }

  #openArriving(): void {
    const { onArriving, unneeded } = this.#options
    const isForeseeable = this.#scanner.foresee !== undefined && this.#exchange.contentLength !== null
    if (onArriving === undefined || unneeded !== undefined || !isForeseeable) return
    this.#arriving = this.#writer.arriving?.() ?? null
  }

  #tellArriving(body: ArrivingBody): void {
    const foreseen = this.#scanner.foresee!(this.#exchange.contentLength!)
    if (foreseen === null) return
    this.#arriving = null
    const { fields, audio } = foreseen
    body.holdBack(audio.offset + audio.length - HELD_BACK_BYTES)
    this.#options.onArriving!({ fields, audio: { ...audio, source: { kind: 'arriving', body } }, body })
  }

  async #start(writer: BodyWriter): Promise<void> {
    try {
      await writer.start()
    } catch (error) {
      if (writer === this.#writer) this.#failure.abort(error)
    }
  }

  /** The body is not needed: the beginning up to its audio is dropped, and nothing more is kept. */
  #forget(): void {
    this.abandon()
    this.#started = null
    this.#writer = this.#open(this.#options.unneeded!.spool)
    this.#exchange.body.resume()
  }

  async #store({ fields, source }: ScannedBody): Promise<ReceivedAudio> {
    this.#arriving?.close()
    if (source.kind !== 'audio') {
      this.abandon()
      return { fields, source, body: null, kept: true, release() {} }
    }
    await unlessAborted(this.#failure.signal, this.#started!)
    const finishing = this.#writer.finish()
    const body = await unlessAborted(this.#failure.signal, finishing).catch((error) => {
      finishing.then((late) => late.release()).catch(() => {})
      throw error
    })
    const audio: AudioRef = { ...source.audio, source: body.source }
    const kept = this.#kept !== false
    return { fields, source: { kind: 'audio', audio }, body, kept, release: () => body.release() }
  }
}
