import { GatewayError } from '../errors.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { Exchange } from './exchange.ts'
import { Gather } from './gather.ts'
import { contentTypeOf, readBody, refuseDeclared } from './intake.ts'
import { JsonStructure } from './json-structure.ts'
import { invalid } from './refusals.ts'
import { decodeUtf8 } from './utf8.ts'

/** Held whatever the budget says, so that a call of a few KiB is served while large bodies use it up. */
const FORCED_BYTES = 256 * 1024
/** How long a larger body waits for memory. */
const WAIT_MS = 5_000
/**
 * What a body takes for each of its bytes: first itself, its text and the value parsed out of it, later the
 * value, the JSON that a provider is sent and the bytes of that.
 */
const COPIES = 3

export interface ReadJsonOptions {
  readonly budget: ByteBudget
  /** Raw bytes of the body. */
  readonly maxBytes: number
  /** Whose share of the budget the body counts against. */
  readonly app: string
}

export interface HoldOptions extends ReadJsonOptions {
  /** Bytes at which `watch` refuses whatever is declared; absent: all that `maxBytes` lets pass may come. */
  readonly heldBytesMax?: number
}

/** A body that is here. */
export interface HeldBytes {
  readonly bytes: Buffer
  /** Gives the memory of the bytes, and of what is made of them, back; see `HeldJson`. */
  release(): void
}

export interface HeldJson {
  readonly value: unknown
  /** Gives the memory of the value back; call it when nobody reads it any more. Idempotent. */
  release(): void
}

/**
 * Reads a whole JSON body and parses it. Its memory is reserved before the first byte is taken, or as it
 * grows when no length is declared; a body of over 256 KiB waits up to 5 s for it.
 *
 * It is parsed on the event loop. A worker thread hands the value back as a copy, and making that takes 8
 * against 20 ms of parsing when 20 MB are one picture, but 115 against 79 ms when they are many small values;
 * either way the loop stops longest where the provider's request is encoded again (33 ms for that picture;
 * medians on two cores of an AMD EPYC).
 *
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, REQUEST_TOO_LARGE, INVALID_REQUEST when the body is not JSON
 *         in UTF-8 or passes the bounds of `JsonStructure`, OVERLOADED when there is no memory for it,
 *         REQUEST_TIMEOUT, CLIENT_CLOSED
 */
export async function readJson(exchange: Exchange, options: ReadJsonOptions): Promise<HeldJson> {
  const { bytes, release } = await holdJson(exchange, options, new JsonStructure())
  try {
    return { value: parseJson(bytes), release }
  } catch (error) {
    release()
    throw error
  }
}

/**
 * The same for whoever parses it in parts: the bytes, which are said to be JSON.
 *
 * @param watch is given every chunk before it is kept; what it throws ends the reading
 * @throws GatewayError as `readJson`, but for what only a parser can tell
 */
export async function holdJson(
  exchange: Exchange,
  options: HoldOptions,
  watch: Pick<JsonStructure, 'scan'>,
): Promise<HeldBytes> {
  refuseDeclared(exchange, options.maxBytes)
  if (contentTypeOf(exchange)?.value !== 'application/json') {
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'send application/json, uncompressed')
  }
  exchange.signal.throwIfAborted()
  const memory = new JsonMemory(options, exchange)
  try {
    return { bytes: await gather(exchange, options, memory, watch), release: () => memory.release() }
  } catch (error) {
    memory.release()
    throw error
  }
}

async function gather(
  exchange: Exchange,
  { maxBytes, heldBytesMax = maxBytes }: HoldOptions,
  memory: JsonMemory,
  watch: Pick<JsonStructure, 'scan'>,
): Promise<Buffer> {
  const { signal } = exchange
  const expected = exchange.contentLength === null ? null : Math.min(exchange.contentLength, heldBytesMax)
  if (expected !== null) await memory.reserve(expected)
  const gathered = new Gather(expected ?? 0)
  if (expected !== null && expected <= FORCED_BYTES) {
    // It has its memory and never waits: most bodies are such, and a second signal costs them dear.
    await readBody(exchange, maxBytes, signal, (view) => {
      watch.scan(view)
      gathered.append(view)
    })
    return gathered.bytes()
  }
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
  const ends = AbortSignal.any([signal, failure.signal])
  await readBody(exchange, maxBytes, ends, (view, last) => {
    watch.scan(view)
    gathered.append(view)
    if (!memory.hold(gathered.capacity) && !last) void wait()
  })
  memory.settle(gathered.length)
  return gathered.bytes()
}

/** The share of the budget that one body has. */
class JsonMemory {
  readonly #budget: ByteBudget
  readonly #app: string
  readonly #signal: AbortSignal
  #taken = 0

  constructor({ budget, app }: ReadJsonOptions, { signal }: Exchange) {
    this.#budget = budget
    this.#app = app
    this.#signal = signal
  }

  /** Takes what a body of `bytes` needs, waiting for it when that is much. @throws GatewayError OVERLOADED */
  async reserve(bytes: number): Promise<void> {
    if (bytes <= FORCED_BYTES) return this.#charge(bytes * COPIES)
    // What needs more than all there is gets all there is: it would be refused for ever otherwise.
    const needed = Math.min(bytes * COPIES, this.#budget.limit)
    await this.#wait(needed)
    this.#taken = needed
  }

  /**
   * Counts `bytes` that are held already.
   *
   * @returns false when a large body has overdrawn the budget and has to `catchUp`
   */
  hold(bytes: number): boolean {
    const missing = Math.min(bytes * COPIES, Math.max(bytes, this.#budget.limit)) - this.#taken
    if (missing <= 0) return true
    this.#charge(missing)
    return bytes <= FORCED_BYTES || this.#budget.used <= this.#budget.limit
  }

  /** Waits until the budget is no longer overdrawn. @throws GatewayError OVERLOADED */
  catchUp(): Promise<void> {
    return this.#wait(0)
  }

  /** Gives back what a body that turned out to have `bytes` does not need. */
  settle(bytes: number): void {
    const spare = Math.max(0, this.#taken - bytes * COPIES)
    this.#budget.refund(spare, this.#app)
    this.#taken -= spare
  }

  release(): void {
    this.#budget.refund(this.#taken, this.#app)
    this.#taken = 0
  }

  #charge(bytes: number): void {
    this.#budget.charge(bytes, this.#app)
    this.#taken += bytes
  }

  async #wait(bytes: number): Promise<void> {
    const options = { app: this.#app, waitMs: WAIT_MS, signal: this.#signal }
    const granted =
      (await this.#budget.reserve?.(bytes, options)) ?? this.#budget.tryReserve(bytes, this.#app)
    if (granted) return
    this.#signal.throwIfAborted()
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
