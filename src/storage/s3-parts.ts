import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import type { PartUpload } from '../schema/objects.ts'
import { failureOf } from './failure.ts'

export interface S3PartsOptions {
  readonly bucket: string
  readonly key: string
  /** For part bodies. */
  readonly streams: S3Client
  /** For everything else. */
  readonly calls: S3Client
  /** Deadline of one call, in milliseconds. */
  readonly callMs: number
}

/** Tries of an abort; an upload that stays open costs storage until the sweeper finds it. */
const ABORT_TRIES = 3
const ABORT_PAUSE_MS = 200
/** A part is sent again once: its bytes are still there. */
const PART_TRIES = 2

/**
 * Starts a multipart upload. The answer is awaited even when `signal` aborts meanwhile: an upload whose id nobody has
 * read cannot be ended.
 */
export async function startS3Parts(options: S3PartsOptions, signal: AbortSignal): Promise<PartUpload> {
  const { calls, bucket, key, callMs } = options
  try {
    signal.throwIfAborted()
    const create = new CreateMultipartUploadCommand({ Bucket: bucket, Key: key })
    const { UploadId } = await calls.send(create, { abortSignal: AbortSignal.timeout(callMs) })
    if (UploadId === undefined) throw new Error('the store named no upload id')
    const upload = new S3Parts(options, UploadId)
    if (!signal.aborted) return upload
    await upload.abort()
    throw signal.reason
  } catch (error) {
    throw failureOf(error, signal)
  }
}

class S3Parts implements PartUpload {
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
    try {
      await sending
    } catch (error) {
      throw failureOf(error, either)
    }
  }

  async complete(signal: AbortSignal): Promise<void> {
    const { calls, bucket, key, callMs } = this.#options
    const Parts = this.#tags.map((ETag, i) => ({ ETag, PartNumber: i + 1 }))
    const command = new CompleteMultipartUploadCommand({
      Bucket: bucket,
      Key: key,
      UploadId: this.#uploadId,
      MultipartUpload: { Parts },
    })
    const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(callMs)])
    try {
      await calls.send(command, { abortSignal }).catch(async (error: unknown) => {
        // The SDK may have sent this twice, and the second time there is no upload because the first one ended it.
        if (!isNoSuchUpload(error)) throw error
        await calls.send(new HeadObjectCommand({ Bucket: bucket, Key: key }), { abortSignal })
      })
      this.#completed = true
    } catch (error) {
      throw failureOf(error, signal)
    }
  }

  abort(): Promise<void> {
    this.#aborting ??= this.#completed ? Promise.resolve() : this.#abort()
    return this.#aborting
  }

  async #abort(): Promise<void> {
    this.#ended.abort(new Error('storage: upload aborted'))
    // A part that arrives behind the abort would stay for good.
    await Promise.all(this.#running)
    const { calls, bucket, key, callMs } = this.#options
    const command = { Bucket: bucket, Key: key, UploadId: this.#uploadId }
    for (let left = ABORT_TRIES; left > 0; left -= 1) {
      try {
        await calls.send(new AbortMultipartUploadCommand(command), {
          abortSignal: AbortSignal.timeout(callMs),
        })
        return
      } catch (error) {
        if (isNoSuchUpload(error) || left === 1) return
        await sleep(ABORT_PAUSE_MS)
      }
    }
  }

  async #send(number: number, chunks: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    const { streams, bucket, key } = this.#options
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    for (let left = PART_TRIES; ; left -= 1) {
      const command = new UploadPartCommand({
        Bucket: bucket,
        Key: key,
        UploadId: this.#uploadId,
        PartNumber: number,
        ContentLength: length,
        Body: streamOf(chunks),
      })
      try {
        const { ETag } = await streams.send(command, { abortSignal: signal })
        if (ETag === undefined) throw new Error('the store named no tag for a part')
        this.#tags[number - 1] = ETag
        return
      } catch (error) {
        if (left === 1 || signal.aborted || isNoSuchUpload(error)) throw error
      }
    }
  }
}

/** A body for `StreamHandler`, which the SDK's types do not know: it wants chunks, not a Readable. */
export function streamOf(chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Readable {
  const body: AsyncIterable<Uint8Array> = {
    async *[Symbol.asyncIterator]() {
      yield* chunks
    },
  }
  return body as Readable
}

/** The upload has ended already, by completion or abort. */
export function isNoSuchUpload(error: unknown): boolean {
  return error instanceof Error && (error.name === 'NoSuchUpload' || error.name === 'NoSuchKey')
}
