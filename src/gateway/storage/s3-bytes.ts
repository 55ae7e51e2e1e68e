import { getFips, hash } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { S3Client } from '@aws-sdk/client-s3'
import type { ObjectKind } from '../../contracts/objects.ts'
import { type Clock, sleep } from '../../contracts/time.ts'
import { Connections } from '../outbound/connections.ts'
import type { RequestHead } from '../outbound/request-head.ts'
import { MIN_CHUNK_BYTES } from './body-bytes.ts'
import { createBudget, type WaitingBudget } from './budget.ts'
import { storeFailure } from './failure.ts'
import { ReadBuffers, type StoreMemory } from './read-buffers.ts'
import { S3Exchange, type StoreAnswer } from './s3-exchange.ts'
import { S3Signer } from './s3-signer.ts'

export interface S3Timing {
  /** How long a connection may take to come about. */
  readonly connectMs: number
  /** How long an upload or download may stand still through the store's fault. */
  readonly stallMs: number
  /** How long a call may take until its answer begins, per try. */
  readonly answerMs: number
  /** How long a call may take with all its tries. */
  readonly callMs: number
}

interface S3BytesOptions {
  readonly endpoint: string
  readonly bucket: string
  /** Memory to read into; absent: each reader has its own. */
  readonly memory?: StoreMemory | undefined
  readonly clock: Clock
}

/** Refusal by the store; its name is the store's own code. */
export class StoreRefusal extends Error {
  readonly status: number

  constructor({ status }: StoreAnswer, text: string) {
    const [, code = `HTTP ${status}`] = /<Code>([^<]{1,100})<\/Code>/.exec(text) ?? []
    const [, message = STATUS_CODES[status]] = /<Message>([^<]{1,500})<\/Message>/.exec(text) ?? []
    super(`the store answered ${status} ${code}: ${message}`)
    this.name = code
    this.status = status
  }
}

/**
 * Reads at a time: with its permits for uploads and calls of the SDK beside them, a node stays below the 1,024 requests
 * that a Ceph gateway serves at a time by default.
 */
const MAX_READS = 512
const READ_TRIES = 3
const RETRY_MS = 100
/** Most that is read of the text of a refusal. */
const TEXT_BYTES = 64 * 1024

/**
 * Longest body whose digest is compared with its tag, where all of it is at hand before it is sent. MD5 takes some
 * 25 µs of it, a quarter of what the rest of a call takes, and would take 1.7 ms of 1 MiB. An answer without a tag
 * counts as a failure whatever the length.
 */
const COMPARED_BYTES = 16 * 1024
const HAS_MD5 = getFips() === 0

/** Kinds of objects that are asked for only where they are known to be there. */
const KNOWN_KINDS: ReadonlySet<string> = new Set<ObjectKind>(['spool', 'upload', 'job', 'result'])

const TRANSIENT_CODES: ReadonlySet<string> = new Set(['RequestTimeout', 'RequestTimeTooSkewed'])

const noop = () => {}

/**
 * Object bytes to and from an S3 server over the connections that providers are asked by, signed by the SDK's signer.
 * Everything else goes by the SDK, whose streams and handlers cost more per byte than all the rest of a call.
 */
export class S3Bytes {
  readonly #signer: S3Signer
  readonly #timing: S3Timing
  readonly #clock: Clock
  readonly #connections: Connections
  readonly #memory: StoreMemory | undefined
  readonly #reads: WaitingBudget

  /** @param client lends its signer, its credentials and its correction of this machine's clock */
  constructor(client: S3Client, { endpoint, bucket, memory, clock }: S3BytesOptions, timing: S3Timing) {
    this.#signer = new S3Signer(client, endpoint, bucket, clock)
    this.#memory = memory
    this.#timing = timing
    this.#clock = clock
    this.#reads = createBudget(MAX_READS, 0, clock)
    this.#connections = new Connections({ clock, connectMs: timing.connectMs, readsInPlace: true })
  }

  /** Bytes `start` to `end` (exclusive) of an object, all of them or an error; as `Objects.get` promises them. */
  async get(
    key: string,
    start: number,
    end: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>> {
    signal.throwIfAborted()
    const { callMs } = this.#timing
    const place = { workspace: '', waitMs: callMs, signal }
    if (!(await this.#reads.reserve(1, place))) {
      signal.throwIfAborted()
      throw new Error(`over ${MAX_READS} reads at a time`)
    }
    try {
      const { exchange, answer } = await this.#openRead(key, start, end, signal)
      return this.#body(exchange, answer, end - start, signal)
    } catch (error) {
      this.#reads.refund(1, '')
      throw error
    }
  }

  /**
   * Sends `body`, of exactly `length` bytes, in one request; never twice. No connection is opened before its first
   * chunk is there: a slow sender costs the store nothing yet. A store that answers 200 has not taken it yet: some say
   * in the body of that answer what went wrong.
   *
   * @returns the tag of the stored bytes
   * @throws  Error when the store names none, or that of other bytes
   */
  async put(
    key: string,
    query: Readonly<Record<string, string>>,
    body: AsyncIterable<Uint8Array>,
    length: number,
    signal: AbortSignal,
  ): Promise<string> {
    const others = body[Symbol.asyncIterator]()
    try {
      const first = await others.next()
      signal.throwIfAborted()
      if (first.done === true && length > 0) throw new Error(`body of no bytes instead of ${length}`)
      const headers = { 'content-length': String(length), 'content-type': 'application/octet-stream' }
      const head = await this.#signer.sign({ method: 'PUT', key, query, headers })
      const digest = digestOf(first, length)
      const sent = first.done === true ? null : { first: first.value, others }
      for (let needsFresh = false; ; needsFresh = true) {
        const request = { head, body: sent, bodyBytes: length, signal, needsFresh, ...this.#timing }
        const exchange = new S3Exchange(this.#connections, request)
        try {
          const answer = await exchange.send()
          return tagOf(answer, await this.#finish(exchange, answer), digest)
        } catch (error) {
          if (!exchange.failedStale) throw error
        }
      }
    } finally {
      // Not awaited: a body that hangs would hold up its own end.
      void Promise.resolve(others.return?.()).catch(noop)
    }
  }

  /** Ends the connections that carry nothing. */
  close(): void {
    this.#connections.closeIdle()
  }

  /** Asks for a range until the store answers with it: nothing has been read yet, so it may be asked again. */
  async #openRead(key: string, start: number, end: number, signal: AbortSignal) {
    const headers = { range: `bytes=${start}-${end - 1}` }
    for (let left = READ_TRIES; ; left -= 1) {
      const head = await this.#signer.sign({ method: 'GET', key, headers })
      try {
        return await this.#ask(head, end - start, signal)
      } catch (error) {
        if (signal.aborted || left === 1 || !isTransient(error, key)) throw error
      }
      await sleep(this.#clock, RETRY_MS * Math.random() * 2 ** (READ_TRIES - left), { signal })
    }
  }

  async #ask(
    head: RequestHead,
    length: number,
    signal: AbortSignal,
    needsFresh = false,
  ): Promise<{ exchange: S3Exchange; answer: StoreAnswer }> {
    const request = { head, body: null, bodyBytes: 0, signal, needsFresh, ...this.#timing }
    const exchange = new S3Exchange(this.#connections, request)
    try {
      const answer = await exchange.send()
      if (answer.status < 200 || answer.status > 299) await this.#finish(exchange, answer)
      if (answer.length === null || answer.length === length) return { exchange, answer }
      const error = new Error(`the store sent ${answer.length} bytes of ${length}`)
      exchange.end(error)
      throw error
    } catch (error) {
      // A kept connection may be one that the store has closed meanwhile: a fresh one tells more.
      if (!exchange.failedStale) throw error
    }
    return this.#ask(head, length, signal, true)
  }

  async *#body(
    exchange: S3Exchange,
    answer: StoreAnswer,
    length: number,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    const buffers = new ReadBuffers(this.#memory, length)
    let [buffer, other] = buffers.both
    let missing = length
    try {
      while (missing > 0) {
        const target = buffer.subarray(0, missing)
        const least = Math.min(MIN_CHUNK_BYTES, missing)
        const bytes = await exchange.read(target, least, target.length === missing ? null : other)
        missing -= bytes
        if (bytes < least) throw new Error(`the store left out ${missing} bytes of ${length}`)
        const isSurplus = missing === 0 && answer.length === null
        if (isSurplus && (await exchange.read(Buffer.alloc(1), 1, null)) > 0)
          throw new Error(`the store sent more than ${length} bytes`)
        const chunk = buffer.subarray(0, bytes)
        yield missing === 0 ? buffers.last(chunk) : chunk
        ;[buffer, other] = [other, buffer]
      }
    } catch (error) {
      throw storeFailure(error, signal)
    } finally {
      exchange.end(new Error('not read to its end'))
      buffers.release(missing === 0)
      this.#reads.refund(1, '')
    }
  }

  /** Ends a request whose answer has next to nothing in it. @throws what the store says against it */
  async #finish(exchange: S3Exchange, answer: StoreAnswer): Promise<string> {
    try {
      const text = answer.length === 0 ? '' : await readText(exchange, answer)
      if (answer.status >= 200 && answer.status <= 299) return text
      this.#signer.learnTime(answer.headers.date)
      throw new StoreRefusal(answer, text)
    } finally {
      exchange.end(new Error('not used any more'))
    }
  }
}

/** Reads the text of an answer, as much of it as anyone needs. */
async function readText(exchange: S3Exchange, { length }: StoreAnswer): Promise<string> {
  const wanted = Math.min(length ?? TEXT_BYTES, TEXT_BYTES)
  const text = Buffer.allocUnsafe(wanted)
  return text.toString('utf8', 0, await exchange.read(text, wanted, null))
}

/** The digest that the tag of a body is compared with; null: it is not. */
function digestOf({ done, value }: IteratorResult<Uint8Array>, length: number): string | null {
  const isWhole = done !== true && value.length === length && length <= COMPARED_BYTES
  return isWhole && HAS_MD5 ? hash('md5', value) : null
}

/** @throws Error when the store has not taken the body, though it answered 200 */
function tagOf(answer: StoreAnswer, text: string, digest: string | null): string {
  if (text.includes('<Error>')) throw new StoreRefusal(answer, text)
  const tag = answer.headers.etag
  if (!tag) throw new Error('the store named no tag for what it was sent')
  const named = MD5_TAG.exec(tag)?.[1]
  if (digest === null || named === undefined || named === digest || isEncrypted(answer)) return tag
  throw new Error('the store named the tag of other bytes than it was sent')
}

/** A tag that is an MD5; the number of parts follows that of an object in parts. */
const MD5_TAG = /^"?([\da-f]{32})"?$/

/** Encrypted by a key of its own: the tag says nothing of the bytes (Amazon S3, "Checking object integrity"). */
function isEncrypted({ headers }: StoreAnswer): boolean {
  const cipher = headers['x-amz-server-side-encryption'] ?? 'AES256'
  return cipher !== 'AES256' || 'x-amz-server-side-encryption-customer-algorithm' in headers
}

/**
 * Another try may do better: the store is away for a moment, or busy, or judges signatures by another clock, or does
 * not find an object that was there.
 */
function isTransient(error: unknown, key: string): boolean {
  if (!(error instanceof StoreRefusal)) return true
  if (error.status === 404) return KNOWN_KINDS.has(key.slice(0, key.indexOf('/')))
  return error.status >= 500 || error.status === 429 || TRANSIENT_CODES.has(error.name)
}
