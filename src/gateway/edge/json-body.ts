import type { ByteBudget, HolderPace, MemoryHolder } from '../../contracts/budget.ts'
import { MEMORY_WAIT_MS } from '../../contracts/budget.ts'
import { toAbortSignal } from '../../contracts/cancellation.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { ownTurn } from '../../contracts/time.ts'
import { isUploadId, UPLOAD_URL_PREFIX } from '../../contracts/uploads.ts'
import { decodeUtf8 } from '../../contracts/utf8.ts'
import { ByteBuilder } from './byte-builder.ts'
import type { Exchange, FinishListener } from './exchange.ts'
import { declaredFilename, declaredMediaType } from './header-value.ts'
import { JsonStructure } from './json-structure.ts'
import { type BodyTaker, contentTypeOf, readBody, refuseDeclared } from './read-body.ts'
import { invalid, invalidField, MUST } from './refusals.ts'

/** Body held even when the budget is used up, so that a call of a few KiB is served beside large bodies. */
const FORCED_BYTES = 256 * 1024
/** Smallest piece of memory for a body that comes in several chunks. */
const FIRST_BYTES = 16 * 1024
/** How long a body arrives before its pace is judged. */
const JUDGED_MS = 1_000
/** When a sender may come back whose memory was wanted by others. */
const SLOW_RETRY_MS = 30_000
/**
 * Copies of a body that exist at once: first its bytes, its text and the parsed value; later the value, the JSON sent
 * to a provider and the bytes of that.
 */
const COPIES = 3

interface ReadJsonOptions {
  readonly budget: ByteBudget
  /** Raw bytes of the body. */
  readonly maxBytes: number
  /** Workspace whose share of the budget the body counts against. */
  readonly workspace: string
}

interface HoldOptions extends ReadJsonOptions {
  /** Bytes at which `watch` refuses whatever is declared; absent: all that `maxBytes` lets pass may come. */
  readonly heldBytesMax?: number
}

interface HeldBytes {
  readonly bytes: Buffer
  /** Gives the memory of the bytes, and of what is made of them, back; when that is no longer read. Idempotent. */
  release(): void
}

/**
 * Reads a whole JSON body and parses it. Its memory is given back when the exchange is finished. That of a body of
 * over 256 KiB is reserved before its first byte is taken, for which it waits up to 5 s, or as it grows when no length
 * is declared; a smaller one is charged as it comes.
 *
 * It is parsed on the event loop. A worker thread hands the value back as a copy, and making that takes 8
 * against 20 ms of parsing when 20 MB are one picture, but 115 against 79 ms when they are many small values;
 * either way the loop stops longest where the provider's request is encoded again (33 ms for that picture;
 * medians on two cores of an AMD EPYC).
 *
 * @param read makes of the value what is wanted of it
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, REQUEST_TOO_LARGE, INVALID_REQUEST when the body is not JSON
 *         in UTF-8 or passes the bounds of `JsonStructure`, OVERLOADED when there is no memory for it,
 *         REQUEST_TIMEOUT, CLIENT_CLOSED
 */
export function readJson<Read>(
  exchange: Exchange,
  options: ReadJsonOptions,
  read: (value: unknown) => Read,
): Promise<Read> {
  return readJsonBytes(exchange, options, { read: (bytes) => read(parseJson(bytes)) })
}

/** Reads the bytes of a JSON body, which are valid during the call only. */
export interface JsonReader<Read> {
  read(bytes: Buffer): Read
  /** Asked, before a small body is looked at and held, for its earlier reading; undefined: there is none. */
  recall?(bytes: Buffer): Read | undefined
}

/** The same for a reader that need not parse every body. */
export function readJsonBytes<Read>(
  exchange: Exchange,
  options: ReadJsonOptions,
  reader: JsonReader<Read>,
): Promise<Read> {
  const finish = (memory: JsonMemory) => {
    const made = reader.read(memory.takeBytes())
    exchange.onFinished(memory)
    return made
  }
  return hold(exchange, options, null, finish, reader)
}

/**
 * The same for a reader that parses it in parts: the bytes, which are declared to be JSON.
 *
 * @param watch is given every chunk before it is kept; an error of it ends the reading
 * @throws GatewayError as `readJson`, but for faults that only a parser finds
 */
export function holdJson(
  exchange: Exchange,
  options: HoldOptions,
  watch: Pick<JsonStructure, 'scan'>,
): Promise<HeldBytes> {
  return hold(exchange, options, watch, (memory) => {
    const bytes = memory.takeBytes()
    return { bytes: memory.isGathered ? bytes : Buffer.from(bytes), release: () => memory.release() }
  })
}

/**
 * Receives a body into memory, which is given back where `finish` throws. Every call of JSON takes this way.
 *
 * @param watch  null: a `JsonStructure` of its own
 * @param finish called when all of it is here, while its last chunk is
 * @param reader of a small body; absent: there is nothing to be recalled
 */
function hold<Held>(
  exchange: Exchange,
  options: HoldOptions,
  watch: Pick<JsonStructure, 'scan'> | null,
  finish: (memory: JsonMemory) => Held,
  reader?: JsonReader<Held>,
): Promise<Held> {
  try {
    refuseOther(exchange, options.maxBytes)
  } catch (refused) {
    return Promise.reject(refused)
  }
  const { maxBytes, heldBytesMax = maxBytes } = options
  const { contentLength, signal } = exchange
  const expected = Math.min(contentLength ?? heldBytesMax, heldBytesMax)
  if (contentLength === null || expected > FORCED_BYTES) {
    const memory = new JsonMemory(options, exchange)
    const large = receiveLarge(exchange, options, expected, memory, watch ?? new JsonStructure(), finish)
    return large.catch((error: unknown) => {
      memory.release()
      throw error
    })
  }
  const small = new SmallBody(exchange, options, expected, watch, finish, reader)
  return readBody(exchange, maxBytes, signal, small) as Promise<Held>
}

/** A body that has its memory and never waits: most are such, and a second signal or promise costs them dear. */
class SmallBody<Held> implements BodyTaker<Held | undefined> {
  readonly #exchange: Exchange
  readonly #options: HoldOptions
  readonly #expected: number
  readonly #finish: (memory: JsonMemory) => Held
  readonly #reader: JsonReader<Held> | undefined
  #watch: Pick<JsonStructure, 'scan'> | null
  #memory: JsonMemory | null = null

  constructor(
    exchange: Exchange,
    options: HoldOptions,
    expected: number,
    watch: Pick<JsonStructure, 'scan'> | null,
    finish: (memory: JsonMemory) => Held,
    reader: JsonReader<Held> | undefined,
  ) {
    this.#exchange = exchange
    this.#options = options
    this.#expected = expected
    this.#watch = watch
    this.#finish = finish
    this.#reader = reader
  }

  take(view: Buffer, last: boolean): Held | undefined {
    const known = last && this.#memory === null ? this.#reader?.recall?.(view) : undefined
    if (known !== undefined) return known
    this.#watch ??= new JsonStructure()
    this.#watch.scan(view)
    this.#memory ??= new JsonMemory(this.#options, this.#exchange)
    this.#memory.append(view, this.#expected, last)
    return last ? this.#finish(this.#memory) : undefined
  }

  failed(): void {
    this.#memory?.release()
  }
}

/** @throws GatewayError for what is not read as JSON, or not at all */
function refuseOther(exchange: Exchange, maxBytes: number): void {
  refuseDeclared(exchange, maxBytes)
  if (contentTypeOf(exchange)?.value !== 'application/json') {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'send application/json, uncompressed')
  }
  exchange.signal.throwIfAborted()
}

/** Receives a body that may have to wait for its memory. @param expected bytes that it may have */
async function receiveLarge<Held>(
  exchange: Exchange,
  { maxBytes }: HoldOptions,
  expected: number,
  memory: JsonMemory,
  watch: Pick<JsonStructure, 'scan'>,
  finish: (memory: JsonMemory) => Held,
): Promise<Held> {
  const { signal, contentLength } = exchange
  if (contentLength !== null) await memory.reserve(expected)
  const failure = new AbortController()
  let waiting = false
  const wait = async () => {
    if (waiting) return
    waiting = true
    exchange.body.pause()
    try {
      await memory.catchUp()
      if (!signal.aborted) exchange.body.resume()
    } catch (error) {
      failure.abort(error)
    }
    waiting = false
  }
  const ends = AbortSignal.any([toAbortSignal(signal), failure.signal])
  memory.onEnded = (error) => failure.abort(error)
  const finishInTurn = () => {
    signal.throwIfAborted()
    return finish(memory)
  }
  const take = (view: Buffer, last: boolean) => {
    watch.scan(view)
    if (!memory.append(view, expected, last) && !last) void wait()
    if (!last) return undefined
    // Several that come together do not hold the loop one after the other: each may take it for 100 ms.
    return memory.isGathered ? ownTurn().then(finishInTurn) : finish(memory)
  }
  return readBody(exchange, maxBytes, ends, { take }) as Promise<Held>
}

/**
 * The bytes of one body and its share of the budget. A small body is charged as it comes: most come whole, in one step.
 * A large one has its reservation, and comes without when that is taken back; then it, too, is charged as it comes.
 */
class JsonMemory implements MemoryHolder, FinishListener {
  readonly workspace: string
  /** Told when the memory was taken away while the body came; until then its next chunk finds it out. */
  onEnded: (error: GatewayError) => void = nothing
  readonly #budget: ByteBudget
  readonly #exchange: Exchange
  #gathered: ByteBuilder | null = null
  /** A body that came in one chunk, until its bytes are taken: to copy them would be for nothing. */
  #chunk: Buffer | null = null
  #charged = 0
  #reserved = 0
  #enrolled = false
  #ended: GatewayError | null = null

  constructor({ budget, workspace }: ReadJsonOptions, exchange: Exchange) {
    this.#budget = budget
    this.workspace = workspace
    this.#exchange = exchange
  }

  /** Takes what a large body of `bytes` needs, waiting for it. @throws GatewayError OVERLOADED */
  async reserve(bytes: number): Promise<void> {
    // A body that needs more than the whole budget gets the whole budget: otherwise it could never be served.
    const needed = Math.min(bytes * COPIES, this.#budget.limit)
    await this.#wait(needed)
    this.#charged = needed
    this.#reserved = bytes
    this.#enrol()
  }

  /**
   * Takes a chunk in.
   *
   * @param expected bytes that the whole body may have
   * @returns false when a large body has overdrawn its memory and has to `catchUp`
   * @throws GatewayError OVERLOADED when the memory was taken back
   */
  append(view: Buffer, expected: number, last: boolean): boolean {
    if (this.#ended !== null) throw this.#ended
    if (this.#gathered === null) {
      if (last) {
        this.#chunk = view
        return this.#hold(view.length)
      }
      const first = Math.min(expected, Math.max(FIRST_BYTES, 2 * view.length))
      this.#gathered = new ByteBuilder(Math.max(this.#reserved, first), expected)
    }
    this.#gathered.append(view)
    if (!last) this.#enrol()
    return this.#hold(this.#gathered.capacity)
  }

  /** The bytes are a copy, which stays. */
  get isGathered(): boolean {
    return this.#gathered !== null
  }

  /** The whole body, while its last chunk is here; what it does not need is given back. To be called once. */
  takeBytes(): Buffer {
    this.#leave()
    if (this.#ended !== null) throw this.#ended
    const bytes = this.#chunk ?? this.#gathered!.bytes()
    this.#chunk = null
    const spare = Math.max(0, this.#charged - bytes.length * COPIES)
    if (spare > 0) this.#budget.refund(spare, this.workspace)
    this.#charged -= spare
    return bytes
  }

  /** Waits until the budget is no longer overdrawn. @throws GatewayError OVERLOADED */
  catchUp(): Promise<void> {
    return this.#wait(0)
  }

  finished(): void {
    this.release()
  }

  release(): void {
    this.#leave()
    this.#budget.refund(this.#charged, this.workspace)
    this.#charged = 0
  }

  pace(): HolderPace | null {
    const { bodyMs, receivedBytes, contentLength } = this.#exchange
    if (bodyMs < JUDGED_MS) return null
    const bytesLeft = contentLength === null ? Number.POSITIVE_INFINITY : contentLength - receivedBytes
    return { bytesPerSecond: (receivedBytes * 1_000) / bodyMs, bytesLeft }
  }

  shrink(): void {
    if (this.#reserved === 0) return
    this.#reserved = 0
    this.#gathered?.trim()
    const spare = this.#charged - (this.#gathered?.capacity ?? 0) * COPIES
    if (spare <= 0) return
    this.#charged -= spare
    this.#budget.refund(spare, this.workspace)
  }

  end(): number {
    this.#ended = new GatewayError(
      'OVERLOADED',
      'this node has no memory left for a body that comes so slowly',
      { retryAfterMs: SLOW_RETRY_MS },
    )
    this.#gathered = null
    this.release()
    this.onEnded(this.#ended)
    return 0
  }

  #hold(bytes: number): boolean {
    const missing = Math.min(bytes * COPIES, Math.max(bytes, this.#budget.limit)) - this.#charged
    if (missing <= 0) return true
    const isSmall = bytes <= FORCED_BYTES
    const granted = !isSmall && this.#budget.tryReserve(missing, this.workspace)
    if (!granted) this.#budget.charge(missing, this.workspace)
    this.#charged += missing
    return isSmall || granted
  }

  #enrol(): void {
    if (this.#enrolled) return
    this.#enrolled = true
    this.#budget.enrol?.(this)
  }

  #leave(): void {
    if (this.#enrolled) this.#budget.dismiss?.(this)
    this.#enrolled = false
  }

  async #wait(bytes: number): Promise<void> {
    const { signal } = this.#exchange
    const heldBytes = () => this.#charged + this.#exchange.receivedBytes
    const options = { workspace: this.workspace, waitMs: MEMORY_WAIT_MS, signal, heldBytes }
    const granted =
      (await this.#budget.reserve?.(bytes, options)) ?? this.#budget.tryReserve(bytes, this.workspace)
    if (granted) return
    signal.throwIfAborted()
    throw new GatewayError('OVERLOADED', 'this node has no memory left for a body of this size now')
  }
}

/** @throws GatewayError INVALID_REQUEST */
export function parseJson(bytes: Buffer): unknown {
  const text = decodeUtf8(bytes)
  if (text === null) throw invalid('the body is not UTF-8')
  try {
    return JSON.parse(text)
  } catch {
    throw invalid('the body is not valid JSON')
  }
}

/** The members of a JSON body that are about its audio, none of them checked yet. */
interface AudioMembers {
  audio?: unknown
  audio_base64?: unknown
}

/** Declarations of a JSON body about its audio, without the audio itself. */
interface JsonSource {
  readonly url: string | null
  readonly mediaType: string | null
  readonly filename: string | null
}

/**
 * Takes the documented members of `audio`, and `audio_base64`, out of a parsed body. Other members of `audio` stay,
 * for whoever refuses or reports them; an `audio` without any is removed. Null counts as absent.
 *
 * @param body parsed, with null where an audio string stood; changed in place
 * @throws GatewayError INVALID_REQUEST when a member has the wrong type
 */
export function readJsonSource(body: AudioMembers): JsonSource {
  const { audio = null, audio_base64: short = null } = body
  if (short !== null) throw invalid('`audio_base64` must be a string', 'audio')
  delete body.audio_base64
  if (audio !== null && !isObject(audio)) throw invalidField('audio', 'must be an object or a base64 string')
  if (audio === null) {
    delete body.audio
    return { url: null, mediaType: null, filename: null }
  }

  const { base64 = null, data = null, media_type: type = null, filename = null, ...others } = audio
  const { url: sentUrl = null, upload_id: upload = null, ...rest } = others
  if (base64 !== null || data !== null)
    throw invalid('`audio.base64` and `audio.data` must be strings', 'audio')
  if (sentUrl !== null && (typeof sentUrl !== 'string' || sentUrl === ''))
    throw invalidField('audio.url', 'must be a string that is not empty')
  if (upload !== null && (typeof upload !== 'string' || !isUploadId(upload)))
    throw invalidField('audio.upload_id', 'must be the id of an upload, upl_…')
  if (upload !== null && sentUrl !== null)
    throw invalidField('audio.upload_id', MUST.beLeftOut('`audio.url` was sent'))
  const url = upload === null ? sentUrl : UPLOAD_URL_PREFIX + upload
  const mediaType = typeof type === 'string' ? declaredMediaType(type) : null
  if (type !== null && mediaType === null) {
    throw invalidField('audio.media_type', 'must be a media type such as audio/wav')
  }
  if (filename !== null && typeof filename !== 'string') {
    throw invalidField('audio.filename', 'must be a string')
  }
  if (Object.keys(rest).length > 0) body.audio = rest
  else delete body.audio
  return { url, mediaType, filename: filename === null ? null : declaredFilename(filename) }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function nothing(): void {}
