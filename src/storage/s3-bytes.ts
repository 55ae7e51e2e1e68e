import { getFips, hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { S3Client } from '@aws-sdk/client-s3'
import type { ObjectKind } from '../contracts/objects.ts'
import { createBudget } from './budget.ts'
import { failureOf } from './failure.ts'
import { ReadBuffers, type StoreMemory } from './read-buffers.ts'
import { type AnswerHead, ChunkedDecoder } from './s3-answer.ts'
import { type Origin, S3Connection } from './s3-connection.ts'

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
}

/** Refusal by the store; its name is the store's own code. */
export class StoreRefusal extends Error {
  readonly status: number

  constructor({ status, reason }: AnswerHead, text: string) {
    const [, code = `HTTP ${status}`] = /<Code>([^<]{1,100})<\/Code>/.exec(text) ?? []
    const [, message = reason] = /<Message>([^<]{1,500})<\/Message>/.exec(text) ?? []
    super(`the store answered ${status} ${code}: ${message}`)
    this.name = code
    this.status = status
  }
}

/**
 * Reads at a time: with its slots for uploads and calls of the SDK beside them, a node stays below the 1,024 requests
 * that a Ceph gateway serves at a time by default.
 */
const MAX_READS = 512
const READ_TRIES = 3
const RETRY_MS = 100
/** The SDK's own measure: below it a clock is taken for right. */
const MAX_SKEW_MS = 240_000
/** Least length of a chunk that is not the last: shorter ones would have to keep their bytes for good. */
const MIN_CHUNK_BYTES = 64 * 1024
/** Most that is read of the text of a refusal. */
const TEXT_BYTES = 64 * 1024

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/**
 * Longest body whose digest is compared with its tag, where all of it is at hand before it is sent. MD5 takes some
 * 25 µs of it, a quarter of what the rest of a call takes, and would take 1.7 ms of 1 MiB. An answer without a tag
 * counts as a failure whatever the length.
 */
const COMPARED_BYTES = 16 * 1024
const HAS_MD5 = getFips() === 0

/** Kinds of objects that are asked for only where somebody knows that they are there. */
const KNOWN_KINDS: ReadonlySet<string> = new Set<ObjectKind>(['spool', 'upload', 'job', 'result'])

const TRANSIENT_CODES: ReadonlySet<string> = new Set(['RequestTimeout', 'RequestTimeTooSkewed'])

const noop = () => {}

/** Request that has been signed: all that stands before its body. */
type SignedHead = string

/**
 * Object bytes to and from an S3 server over connections of our own, signed by the SDK's signer with its credentials.
 * Everything else goes by the SDK, whose streams and handlers cost more per byte than all the rest of a call.
 */
export class S3Bytes {
  readonly #client: S3Client
  readonly #bucket: string
  readonly #timing: S3Timing
  readonly #origin: Origin
  readonly #host: string
  readonly #basePath: string
  readonly #memory: StoreMemory | undefined
  readonly #idle: S3Connection[] = []
  readonly #reads = createBudget(MAX_READS, 0)
  #signer: ReturnType<S3Client['config']['signer']> | null = null
  #closed = false

  /** @param client lends its signer, its credentials and what it knows of the store's clock */
  constructor(client: S3Client, { endpoint, bucket, memory }: S3BytesOptions, timing: S3Timing) {
    const { protocol, hostname, port, host, pathname } = new URL(endpoint)
    const secure = protocol === 'https:'
    this.#client = client
    this.#bucket = bucket
    this.#memory = memory
    this.#timing = timing
    this.#origin = {
      secure,
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? (secure ? 443 : 80) : Number(port),
    }
    this.#host = host
    this.#basePath = pathname.replace(/\/$/, '')
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
      const { connection, head } = await this.#openRead(key, start, end, signal)
      return this.#body(connection, head, end - start, signal)
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
   * @returns the tag of what has been stored
   * @throws  Error when the store names none, or that of other bytes
   */
  async put(
    key: string,
    query: Readonly<Record<string, string>>,
    body: AsyncIterable<Uint8Array>,
    length: number,
    signal: AbortSignal,
  ): Promise<string> {
    const chunks = body[Symbol.asyncIterator]()
    try {
      const first = await chunks.next()
      signal.throwIfAborted()
      const headers = { 'content-length': String(length), 'content-type': 'application/octet-stream' }
      const request = await this.#sign('PUT', key, query, headers, 'UNSIGNED-PAYLOAD')
      const digest = digestOf(first, length)
      let connection = await this.#take(signal)
      for (;;) {
        const upload = new Upload(connection, first, chunks)
        try {
          const head = await upload.send(request, signal)
          const text = await this.#finish(connection, head, upload.isSent)
          return tagOf(head, text, digest)
        } catch (error) {
          if (!upload.failedStale || signal.aborted) throw error
        }
        connection = await this.#connect(signal)
      }
    } finally {
      // Not awaited: a body that hangs would hold up its own end.
      void Promise.resolve(chunks.return?.()).catch(noop)
    }
  }

  /** Ends the connections that carry nothing. */
  close(): void {
    this.#closed = true
    for (const connection of [...this.#idle]) connection.destroy(new Error('closed'))
  }

  /** Asks for a range until the store answers with it: nothing has been read yet, so it may be asked again. */
  async #openRead(key: string, start: number, end: number, signal: AbortSignal) {
    const headers = { range: `bytes=${start}-${end - 1}` }
    for (let left = READ_TRIES; ; left -= 1) {
      const request = await this.#sign('GET', key, {}, headers, EMPTY_SHA256)
      try {
        return await this.#ask(request, end - start, await this.#take(signal), signal)
      } catch (error) {
        if (signal.aborted || left === 1 || !isTransient(error, key)) throw error
      }
      await sleep(RETRY_MS * Math.random() * 2 ** (READ_TRIES - left), undefined, { signal })
    }
  }

  async #ask(
    request: SignedHead,
    length: number,
    connection: S3Connection,
    signal: AbortSignal,
  ): Promise<{ connection: S3Connection; head: AnswerHead }> {
    const { answerMs } = this.#timing
    const late = () => connection.destroy(new Error(`no answer within ${answerMs} ms`))
    const timer = setTimeout(late, answerMs)
    let head: AnswerHead | null = null
    try {
      const answer = connection.begin(signal)
      await connection.write(request)
      head = await answer
      if (head.status < 200 || head.status > 299) await this.#finish(connection, head, true)
      if (head.length === null || head.length === length) return { connection, head }
      const error = new Error(`the store sent ${head.length} bytes of ${length}`)
      connection.destroy(error)
      throw error
    } catch (error) {
      // A kept connection may be one that the store has closed meanwhile: a fresh one tells more.
      if (head !== null || !connection.isReused || signal.aborted) throw error
    } finally {
      clearTimeout(timer)
    }
    return this.#ask(request, length, await this.#connect(signal), signal)
  }

  async *#body(
    connection: S3Connection,
    head: AnswerHead,
    length: number,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    const isPlain = head.length !== null
    const decoder = head.headers.has('transfer-encoding') ? new ChunkedDecoder() : null
    const buffers = new ReadBuffers(this.#memory, length)
    let [buffer, other] = buffers.both
    let missing = length
    const next = (target: Uint8Array, least: number, after: Uint8Array | null) =>
      decoder === null
        ? connection.read(target, least, after)
        : readChunked(connection, decoder, target, least)
    try {
      while (missing > 0) {
        const target = buffer.subarray(0, missing)
        const least = Math.min(MIN_CHUNK_BYTES, missing)
        const bytes = await next(target, least, target.length === missing ? null : other)
        missing -= bytes
        if (bytes < least) throw new Error(`the store left out ${missing} bytes of ${length}`)
        if (missing === 0 && isPlain) this.#give(connection, head)
        if (missing === 0 && !isPlain && (await next(Buffer.alloc(1), 1, null)) > 0)
          throw new Error(`the store sent more than ${length} bytes`)
        const chunk = buffer.subarray(0, bytes)
        yield missing === 0 ? buffers.last(chunk) : chunk
        ;[buffer, other] = [other, buffer]
      }
    } catch (error) {
      throw failureOf(error, signal)
    } finally {
      if (missing > 0 || !isPlain) connection.destroy(new Error('not read to its end'))
      buffers.release(missing === 0)
      this.#reads.refund(1, '')
    }
  }

  /** Ends a request whose answer has next to nothing in it. @throws what the store says against it */
  async #finish(connection: S3Connection, head: AnswerHead, isSent: boolean): Promise<string> {
    const good = head.status >= 200 && head.status <= 299
    const { length } = head
    try {
      const text = length === 0 ? '' : await readText(connection, head)
      if (!good) {
        this.#learnTime(head)
        throw new StoreRefusal(head, text)
      }
      return text
    } finally {
      // An answer before the end of the body is a refusal, and the connection is no use after it.
      if (isSent && length !== null && length <= TEXT_BYTES) this.#give(connection, head)
      else connection.destroy(new Error('not used any more'))
    }
  }

  async #sign(
    method: string,
    key: string,
    query: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>>,
    sha256: string,
  ): Promise<SignedHead> {
    const { config } = this.#client
    this.#signer ??= config.signer()
    // The one character of a key that a signature takes only when it is escaped.
    const path = `${this.#basePath}/${this.#bucket}/${key.replace('=', '%3D')}`
    const { host: hostname, secure } = this.#origin
    const request = {
      method,
      protocol: secure ? 'https:' : 'http:',
      hostname,
      path,
      query: { ...query },
      headers: { host: this.#host, 'x-amz-content-sha256': sha256, ...headers },
    }
    const signingDate = new Date(Date.now() + config.systemClockOffset)
    const signed = await (await this.#signer).sign(request, { signingDate })
    const pairs = new URLSearchParams(query)
    const target = pairs.size === 0 ? path : `${path}?${pairs}`
    const lines = Object.entries(signed.headers).map(([name, value]) => `${name}: ${value}\r\n`)
    return `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`
  }

  /** Corrects the clock that requests are signed by, as the SDK does for its own. */
  #learnTime({ headers }: AnswerHead): void {
    const offset = Date.parse(headers.get('date') ?? '') - Date.now()
    const { config } = this.#client
    if (Math.abs(offset - config.systemClockOffset) > MAX_SKEW_MS) config.systemClockOffset = offset
  }

  async #take(signal: AbortSignal): Promise<S3Connection> {
    signal.throwIfAborted()
    return this.#idle.pop() ?? this.#connect(signal)
  }

  async #connect(signal: AbortSignal): Promise<S3Connection> {
    const connection = await S3Connection.open(this.#origin, this.#timing, signal)
    connection.onEnd = () => {
      const at = this.#idle.indexOf(connection)
      if (at >= 0) this.#idle.splice(at, 1)
    }
    return connection
  }

  #give(connection: S3Connection, { headers }: AnswerHead): void {
    const isLast = this.#closed || headers.get('connection')?.toLowerCase() === 'close'
    if (isLast) connection.destroy(new Error('the last answer of its connection'))
    else connection.release()
    if (connection.isOpen) this.#idle.push(connection)
  }
}

/** One body on its way over one connection. */
class Upload {
  readonly #connection: S3Connection
  readonly #first: IteratorResult<Uint8Array>
  readonly #chunks: AsyncIterator<Uint8Array>
  #asked = false
  #answered = false
  #sent = false

  constructor(
    connection: S3Connection,
    first: IteratorResult<Uint8Array>,
    chunks: AsyncIterator<Uint8Array>,
  ) {
    this.#connection = connection
    this.#first = first
    this.#chunks = chunks
  }

  /** The store had closed the kept connection. Nothing but the first chunk was sent, so it can be sent again. */
  get failedStale(): boolean {
    return this.#connection.isReused && !this.#asked && !this.#answered
  }

  get isSent(): boolean {
    return this.#sent
  }

  /** @returns the head of the answer, as soon as it is there, also when it comes before the body has been sent */
  async send(request: SignedHead, signal: AbortSignal): Promise<AnswerHead> {
    const answer = this.#connection.begin(signal)
    this.#write(request).catch((error: unknown) => this.#connection.destroy(error as Error))
    const head = await answer
    this.#answered = true
    return head
  }

  async #write(request: SignedHead): Promise<void> {
    const connection = this.#connection
    let next = this.#first
    if (next.done === true) await connection.write(request)
    else await connection.write(request, next.value)
    while (next.done !== true) {
      this.#asked = true
      if (this.#answered) return
      next = await this.#chunks.next()
      if (next.done !== true) await connection.write(next.value)
    }
    this.#sent = true
    if (!this.#answered) connection.awaitStore(true)
  }
}

/** Reads the text of an answer, as much of it as anybody needs. */
async function readText(connection: S3Connection, head: AnswerHead): Promise<string> {
  const decoder = head.headers.has('transfer-encoding') ? new ChunkedDecoder() : null
  const wanted = Math.min(head.length ?? TEXT_BYTES, TEXT_BYTES)
  const text = Buffer.allocUnsafe(wanted)
  const length = await (decoder === null
    ? connection.read(text, wanted, null)
    : readChunked(connection, decoder, text, wanted))
  return text.toString('utf8', 0, length)
}

/** As `S3Connection.read`, of a body in chunks. */
async function readChunked(
  connection: S3Connection,
  decoder: ChunkedDecoder,
  target: Uint8Array,
  least: number,
): Promise<number> {
  let filled = 0
  while (filled < least && !decoder.isDone) {
    const place = target.subarray(filled)
    const bytes = await connection.read(place, 1, null)
    if (bytes === 0) break
    filled += decoder.decode(place.subarray(0, bytes))
  }
  return filled
}

/** The digest that the tag of a body is compared with; null: it is not. */
function digestOf({ done, value }: IteratorResult<Uint8Array>, length: number): string | null {
  const isWhole = done !== true && value.length === length && length <= COMPARED_BYTES
  return isWhole && HAS_MD5 ? hash('md5', value) : null
}

/** @throws Error when the store has not taken what was sent, though it answered 200 */
function tagOf(head: AnswerHead, text: string, digest: string | null): string {
  if (text.includes('<Error>')) throw new StoreRefusal(head, text)
  const tag = head.headers.get('etag')
  if (!tag) throw new Error('the store named no tag for what it was sent')
  const named = MD5_TAG.exec(tag)?.[1]
  if (digest === null || named === undefined || named === digest || isEncrypted(head)) return tag
  throw new Error('the store named the tag of other bytes than it was sent')
}

/** A tag that is an MD5; that of an object in parts has their number behind it. */
const MD5_TAG = /^"?([\da-f]{32})"?$/

/** Encrypted by a key of its own: the tag says nothing of the bytes (Amazon S3, "Checking object integrity"). */
function isEncrypted({ headers }: AnswerHead): boolean {
  const cipher = headers.get('x-amz-server-side-encryption') ?? 'AES256'
  return cipher !== 'AES256' || headers.has('x-amz-server-side-encryption-customer-algorithm')
}

/**
 * Whether another try may do better: the store is away for a moment, or busy, or signed requests by another clock, or
 * says that an object is not there which was.
 */
function isTransient(error: unknown, key: string): boolean {
  if (!(error instanceof StoreRefusal)) return true
  if (error.status === 404) return KNOWN_KINDS.has(key.slice(0, key.indexOf('/')))
  return error.status >= 500 || error.status === 429 || TRANSIENT_CODES.has(error.name)
}
