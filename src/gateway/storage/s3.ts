import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  S3Client,
} from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import type { Links } from '../../contracts/links.ts'
import type { ObjectInfo, Objects, PartUpload } from '../../contracts/objects.ts'
import { type Clock, deadline, sleep, systemClock } from '../../contracts/time.ts'
import { TO_HOST } from '../outbound/host-lookup.ts'
import { chunksOf, untilAborted } from './body-bytes.ts'
import { attempt } from './failure.ts'
import { checkKey } from './key.ts'
import type { StoreMemory } from './read-buffers.ts'
import { S3Bytes, type S3Timing } from './s3-bytes.ts'

interface S3PartsOptions {
  readonly bucket: string
  readonly key: string
  /** For part bodies. */
  readonly bytes: S3Bytes
  /** For everything else. */
  readonly calls: S3Client
  /** Deadline of one call, in milliseconds. */
  readonly callMs: number
  readonly clock: Clock
}

/** Tries of an abort; an upload that stays open costs storage until the sweeper finds it. */
const ABORT_TRIES = 3
const ABORT_PAUSE_MS = 200
/** A part is sent again once: its bytes are still there. */
const PART_TRIES = 2

/**
 * Starts a multipart upload. The answer is awaited even when `signal` aborts meanwhile: an upload whose id no one
 * has read cannot be ended.
 */
function startS3Parts(options: S3PartsOptions, signal: AbortSignal): Promise<PartUpload> {
  const { calls, bucket, key, callMs, clock } = options
  return attempt(async () => {
    signal.throwIfAborted()
    const create = new CreateMultipartUploadCommand({ Bucket: bucket, Key: key })
    const { UploadId } = await calls.send(create, { abortSignal: deadline(clock, callMs) })
    if (UploadId === undefined) throw new Error('the store named no upload id')
    const upload = new S3PartUpload(options, UploadId)
    if (!signal.aborted) return upload
    await upload.abort()
    throw signal.reason
  }, signal)
}

class S3PartUpload implements PartUpload {
  readonly #options: S3PartsOptions
  readonly #uploadId: string
  readonly #ended = new AbortController()
  readonly #tags: string[] = []
  readonly #running = new Set<Promise<void>>()
  #parts = 0
  #completed = false
  #aborting: Promise<void> | null = null

  constructor(options: S3PartsOptions, uploadId: string) {
    this.#options = options
    this.#uploadId = uploadId
  }

  async part(chunks: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    this.#parts += 1
    const either = AbortSignal.any([signal, this.#ended.signal])
    const sending = this.#send(this.#parts, chunks, either)
    const settled = sending.catch(() => {}).then(() => void this.#running.delete(settled))
    this.#running.add(settled)
    await attempt(() => sending, either)
  }

  async complete(signal: AbortSignal): Promise<void> {
    const { calls, bucket, key, callMs, clock } = this.#options
    const Parts = this.#tags.map((ETag, i) => ({ ETag, PartNumber: i + 1 }))
    const command = new CompleteMultipartUploadCommand({
      Bucket: bucket,
      Key: key,
      UploadId: this.#uploadId,
      MultipartUpload: { Parts },
    })
    const abortSignal = AbortSignal.any([signal, deadline(clock, callMs)])
    await attempt(async () => {
      const { ETag } = await calls.send(command, { abortSignal }).catch((error: unknown) => {
        // The SDK may have sent this twice, and the second time there is no upload because the first one ended it.
        if (!isNoSuchUpload(error)) throw error
        return calls.send(new HeadObjectCommand({ Bucket: bucket, Key: key }), { abortSignal })
      })
      if (!ETag) throw new Error('the store named no tag for what its parts make')
      this.#completed = true
    }, signal)
  }

  abort(): Promise<void> {
    this.#aborting ??= this.#completed ? Promise.resolve() : this.#abort()
    return this.#aborting
  }

  async #abort(): Promise<void> {
    this.#ended.abort(new Error('storage: upload aborted'))
    // A part that arrives after the abort would stay for good.
    await Promise.all(this.#running)
    const { calls, bucket, key, callMs, clock } = this.#options
    const command = { Bucket: bucket, Key: key, UploadId: this.#uploadId }
    for (let left = ABORT_TRIES; left > 0; left -= 1) {
      try {
        await calls.send(new AbortMultipartUploadCommand(command), { abortSignal: deadline(clock, callMs) })
        return
      } catch (error) {
        if (isNoSuchUpload(error) || left === 1) return
        await sleep(clock, ABORT_PAUSE_MS)
      }
    }
  }

  async #send(number: number, chunks: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    const { bytes, key } = this.#options
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    const query = { partNumber: String(number), uploadId: this.#uploadId }
    for (let left = PART_TRIES; ; left -= 1) {
      try {
        this.#tags[number - 1] = await bytes.put(key, query, chunksOf(...chunks), length, signal)
        return
      } catch (error) {
        if (left === 1 || signal.aborted || isNoSuchUpload(error)) throw error
      }
    }
  }
}

/** The upload has ended already, by completion or abort. */
function isNoSuchUpload(error: unknown): boolean {
  return error instanceof Error && (error.name === 'NoSuchUpload' || error.name === 'NoSuchKey')
}

export interface S3Options {
  /** Origin of the server, e.g. `http://127.0.0.1:7480`. Buckets are addressed by path. */
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  /** Both absent: the credentials that the SDK finds, such as those of the role of a machine or a pod. */
  readonly accessKeyId?: string | undefined
  readonly secretAccessKey?: string | undefined
  readonly timing?: Partial<S3Timing>
  /** Memory that objects are read into; absent: each reader has its own. */
  readonly memory?: StoreMemory | undefined
  readonly clock?: Clock
}

type Keys = Pick<S3Options, 'accessKeyId' | 'secretAccessKey'>

function credentialsIn({ accessKeyId, secretAccessKey }: Keys) {
  if (accessKeyId === undefined || secretAccessKey === undefined) return {}
  return { credentials: { accessKeyId, secretAccessKey } }
}

// A server on the next machine connects in milliseconds; what takes longer is a dead host, and a caller waits.
const TIMING: S3Timing = { connectMs: 1_000, stallMs: 5_000, answerMs: 4_000, callMs: 10_000 }
const MAX_CALL_SOCKETS = 128
const CALL_TRIES = 3

const silent = () => {}
/** The SDK writes to the console when it is given no logger, one line per aborted upload. */
const QUIET = { trace: silent, debug: silent, info: silent, warn: silent, error: silent }

/** The object store in a bucket of any server that speaks S3. */
export function createS3Objects({ bucket, memory, clock = systemClock, ...options }: S3Options): Objects {
  const timing = { ...TIMING, ...options.timing }
  const calls = createClient(options, timing)
  const bytes = new S3Bytes(calls, { endpoint: options.endpoint, bucket, memory, clock }, timing)
  const at = (key: string) => ({ Bucket: bucket, Key: checkKey(key) })
  const limited = (signal?: AbortSignal) => {
    const late = deadline(clock, timing.callMs)
    return { abortSignal: signal === undefined ? late : AbortSignal.any([signal, late]) }
  }

  return {
    async put(key, body, length, { signal }) {
      checkKey(key)
      await attempt(() => bytes.put(key, {}, untilAborted(body, signal), length, signal), signal)
    },
    upload(key, { signal }) {
      const options = { bucket, bytes, calls, callMs: timing.callMs, key: checkKey(key), clock }
      return startS3Parts(options, signal)
    },
    async get(key, start, end, signal) {
      checkKey(key)
      return start >= end ? chunksOf() : attempt(() => bytes.get(key, start, end, signal), signal)
    },
    async remove(key) {
      await attempt(() => calls.send(new DeleteObjectCommand(at(key)), limited()))
    },
    list: (prefix) => listObjects(calls, bucket, prefix, limited),
    fileOf: () => null,
    abortUploads: (prefix, before) => attempt(() => abortUploads(calls, bucket, prefix, before, limited)),
    async ping(signal) {
      await attempt(() => calls.send(new HeadBucketCommand({ Bucket: bucket }), limited(signal)), signal)
    },
    async close() {
      bytes.close()
      calls.destroy()
    },
  }
}

type Limited = (signal?: AbortSignal) => { abortSignal: AbortSignal }

/**
 * Client for all but object bytes, and whose signer signs these. Checksums only where S3 demands them: the SDK's
 * default costs 1.7 times the CPU and is refused by older servers.
 */
function createClient(
  options: Omit<S3Options, 'bucket' | 'memory' | 'clock'>,
  { connectMs, answerMs }: S3Timing,
): S3Client {
  const { endpoint, region } = options
  const agent = { keepAlive: true, maxSockets: MAX_CALL_SOCKETS, ...TO_HOST }
  return new S3Client({
    endpoint,
    region,
    ...credentialsIn(options),
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
    logger: QUIET,
    maxAttempts: CALL_TRIES,
    requestHandler: {
      httpAgent: new HttpAgent(agent),
      httpsAgent: new HttpsAgent(agent),
      connectionTimeout: connectMs,
      requestTimeout: answerMs,
      throwOnRequestTimeout: true,
      logger: QUIET,
    },
  })
}

async function* listObjects(
  calls: S3Client,
  bucket: string,
  prefix: string,
  limited: Limited,
): AsyncGenerator<ObjectInfo> {
  let token: string | undefined
  do {
    const command = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken: token })
    const page = await attempt(() => calls.send(command, limited()))
    for (const { Key, Size, LastModified } of page.Contents ?? []) {
      if (Key === undefined || LastModified === undefined) continue
      yield { key: Key, bytes: Size ?? 0, modifiedAt: LastModified }
    }
    token = page.NextContinuationToken
  } while (token !== undefined)
}

async function abortUploads(
  calls: S3Client,
  bucket: string,
  prefix: string,
  before: Date,
  limited: Limited,
): Promise<number> {
  let aborted = 0
  let KeyMarker: string | undefined
  let UploadIdMarker: string | undefined
  do {
    const from = { Bucket: bucket, Prefix: prefix, KeyMarker, UploadIdMarker }
    const page: ListMultipartUploadsCommandOutput = await calls.send(
      new ListMultipartUploadsCommand(from),
      limited(),
    )
    for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
      if (Key === undefined || UploadId === undefined || Initiated === undefined || Initiated >= before)
        continue
      const command = new AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId })
      // Another node may have found it too.
      await calls.send(command, limited()).catch((error: unknown) => {
        if (!isNoSuchUpload(error)) throw error
      })
      aborted += 1
    }
    KeyMarker = page.IsTruncated === true ? page.NextKeyMarker : undefined
    UploadIdMarker = page.NextUploadIdMarker
  } while (KeyMarker !== undefined)
  return aborted
}

/** URLs that the store itself signs; nothing is sent to make one. `endpoint` is the one that callers reach. */
export function createS3Links({
  bucket,
  endpoint,
  region,
  clock = systemClock,
  ...keys
}: Omit<S3Options, 'timing' | 'memory'>): Links {
  const client = new S3Client({ endpoint, region, ...credentialsIn(keys), forcePathStyle: true })
  return {
    sign({ key, mediaType }, endsAtSeconds) {
      const command = new GetObjectCommand({ Bucket: bucket, Key: key, ResponseContentType: mediaType })
      // A signature has the second in which it was made, and how many whole ones it holds from there: it opens its
      // object to the end of the last one, unless that is deleted before.
      const signedAtSeconds = Math.floor(clock.wallNow() / 1000)
      const signingDate = new Date(signedAtSeconds * 1000)
      return getSignedUrl(client, command, {
        signingDate,
        expiresIn: Math.ceil(endsAtSeconds) - signedAtSeconds,
      })
    },
  }
}
