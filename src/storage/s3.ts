import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3'
import type { ObjectInfo, Objects } from '../schema/objects.ts'
import { untilAborted } from './body-bytes.ts'
import { failureOf, unavailable } from './failure.ts'
import { checkKey } from './key.ts'
import { isNoSuchUpload, startS3Parts, streamOf } from './s3-parts.ts'
import { RangeStream } from './s3-range.ts'
import { StreamHandler } from './s3-streams.ts'

export interface S3Options {
  /** Origin of the server, e.g. `http://127.0.0.1:7480`. Buckets are addressed by path. */
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly timing?: Partial<S3Timing>
}

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

// A server on the next machine connects in milliseconds; what takes longer is a dead host, and a caller waits.
const TIMING: S3Timing = { connectMs: 1_000, stallMs: 5_000, answerMs: 4_000, callMs: 10_000 }
/** Reads may stay open as long as a provider is slow, so they need more connections than there are calls. */
const MAX_CALL_SOCKETS = 512
const CALL_TRIES = 3

const silent = () => {}
/** The SDK writes to the console when it is given no logger, one line per aborted upload. */
const QUIET = { trace: silent, debug: silent, info: silent, warn: silent, error: silent }

/** The object store in a bucket of any server that speaks S3. */
export function createS3Objects({ bucket, ...options }: S3Options): Objects {
  const timing = { ...TIMING, ...options.timing }
  const { streams, calls } = createClients(options, timing)
  const at = (key: string) => ({ Bucket: bucket, Key: checkKey(key) })
  const deadline = (signal?: AbortSignal) => {
    const late = AbortSignal.timeout(timing.callMs)
    return { abortSignal: signal === undefined ? late : AbortSignal.any([signal, late]) }
  }

  return {
    async put(key, body, length, { signal }) {
      const Body = streamOf(exactly(untilAborted(body, signal), length))
      const command = new PutObjectCommand({ ...at(key), ContentLength: length, Body })
      try {
        await streams.send(command, { abortSignal: signal })
      } catch (error) {
        throw failureOf(error, signal)
      }
    },
    upload(key, { signal }) {
      return startS3Parts({ bucket, streams, calls, callMs: timing.callMs, key: checkKey(key) }, signal)
    },
    async get(key, start, end, signal) {
      const command = new GetObjectCommand({ ...at(key), Range: `bytes=${start}-${end - 1}` })
      if (start >= end) return Readable.from([])
      try {
        const { Body } = await calls.send(command, { abortSignal: signal })
        if (!(Body instanceof Readable)) throw new Error('the store sent no body')
        return new RangeStream(Body, end - start, timing.stallMs)
      } catch (error) {
        throw failureOf(error, signal)
      }
    },
    async remove(key) {
      await attempt(() => calls.send(new DeleteObjectCommand(at(key)), deadline()))
    },
    list: (prefix) => listObjects(calls, bucket, prefix, deadline),
    abortUploads: (prefix, before) => attempt(() => abortUploads(calls, bucket, prefix, before, deadline)),
    async ping(signal) {
      try {
        await calls.send(new HeadBucketCommand({ Bucket: bucket }), deadline(signal))
      } catch (error) {
        throw failureOf(error, signal)
      }
    },
    async close() {
      streams.destroy()
      calls.destroy()
    },
  }
}

type Deadline = (signal?: AbortSignal) => { abortSignal: AbortSignal }

/**
 * Two clients, because uploads must never wait for a connection that a read holds, nor be sent twice.
 * Checksums only where S3 demands them: the SDK's default costs 1.7 times the CPU and is refused by older servers.
 */
function createClients(options: Omit<S3Options, 'bucket'>, { connectMs, stallMs, answerMs }: S3Timing) {
  const { endpoint, region, accessKeyId, secretAccessKey } = options
  const shared: S3ClientConfig = {
    endpoint,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
    logger: QUIET,
  }
  const agent = { keepAlive: true, maxSockets: MAX_CALL_SOCKETS }
  const calls = new S3Client({
    ...shared,
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
  const streams = new S3Client({
    ...shared,
    maxAttempts: 1,
    requestHandler: new StreamHandler({ connectMs, stallMs }),
  })
  return { calls, streams }
}

/** Passes `body` on and fails when it is not `length` bytes long: a server would wait for the rest, or cut it off. */
async function* exactly(body: AsyncIterable<Uint8Array>, length: number): AsyncGenerator<Uint8Array> {
  let missing = length
  for await (const chunk of body) {
    missing -= chunk.length
    if (missing < 0) break
    yield chunk
  }
  if (missing !== 0) throw new Error(`body of ${length - missing} bytes or more instead of ${length}`)
}

async function* listObjects(
  calls: S3Client,
  bucket: string,
  prefix: string,
  deadline: Deadline,
): AsyncGenerator<ObjectInfo> {
  let token: string | undefined
  do {
    const command = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, ContinuationToken: token })
    const page = await attempt(() => calls.send(command, deadline()))
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
  deadline: Deadline,
): Promise<number> {
  let aborted = 0
  let KeyMarker: string | undefined
  let UploadIdMarker: string | undefined
  do {
    const from = { Bucket: bucket, Prefix: prefix, KeyMarker, UploadIdMarker }
    const page: ListMultipartUploadsCommandOutput = await calls.send(
      new ListMultipartUploadsCommand(from),
      deadline(),
    )
    for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
      if (Key === undefined || UploadId === undefined || Initiated === undefined || Initiated >= before)
        continue
      const command = new AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId })
      // Another node may have found it too.
      await calls.send(command, deadline()).catch((error: unknown) => {
        if (!isNoSuchUpload(error)) throw error
      })
      aborted += 1
    }
    KeyMarker = page.IsTruncated === true ? page.NextKeyMarker : undefined
    UploadIdMarker = page.NextUploadIdMarker
  } while (KeyMarker !== undefined)
  return aborted
}

async function attempt<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    throw unavailable(error)
  }
}
