import { createHash, randomBytes } from 'node:crypto'
import type { Test } from 'tap'
import { type AudioRef, BLOCK_BYTES, type StoredBody } from '../../../src/contracts/audio.ts'
import type { Objects } from '../../../src/contracts/objects.ts'
import type { BodyWriter } from '../../../src/contracts/spool.ts'
import { type Clock, systemClock } from '../../../src/contracts/time.ts'
import { createBlocks } from '../../../src/gateway/storage/blocks.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { createS3Objects, type S3Options } from '../../../src/gateway/storage/s3.ts'
import { sealObjects } from '../../../src/gateway/storage/sealed-objects.ts'
import { createSpool } from '../../../src/gateway/storage/spool.ts'
import type { SpoolTiming } from '../../../src/gateway/storage/spool-context.ts'
import { type SweeperOptions, startSweeper } from '../../../src/gateway/storage/sweep.ts'
import { tempFolder } from '../../support/scratch.ts'

export const MIB = 1024 * 1024

export interface RigOptions {
  readonly budgetBytes?: number
  readonly timing?: Partial<SpoolTiming>
  readonly uploadsMax?: number
  readonly clock?: Clock
  /** The store to use; default: a folder of its own. */
  readonly objects?: Objects
}

/** A spool over real memory and a real store. */
export async function createRig(t: Test, options: RigOptions = {}) {
  const { clock = systemClock } = options
  const budget = createBudget(options.budgetBytes ?? 64 * MIB, undefined, clock)
  const blocks = createBlocks(budget, { restMs: 400, clock })
  const objects = options.objects ?? (await createFileObjects(await tempFolder(t), { blocks, budget }))
  const spool = createSpool({
    budget,
    blocks,
    objects: sealObjects(objects),
    timing: options.timing ?? {},
    clock,
    ...(options.uploadsMax === undefined ? {} : { uploadsMax: options.uploadsMax }),
  })
  // The server's sockets keep a process alive while bodies arrive; the spool's own timers do not.
  const alive = setInterval(() => {}, 1_000)
  t.teardown(async () => {
    clearInterval(alive)
    await spool.close()
    blocks.close()
  })
  const open = (contentLength: number | null, workspace = 'acme') =>
    spool.open({ workspace, id: 'req_1', contentLength })
  return { budget, blocks, objects, spool, open }
}

/** The objects of a bucket, until the test ends. */
export function openS3(t: Test, options: S3Options): Objects {
  const objects = createS3Objects(options)
  t.teardown(() => objects.close())
  return objects
}

/** Resolves once the writer takes more. Set up before the bytes that may turn it unready. */
export async function whenReady(writer: BodyWriter): Promise<void> {
  if (writer.ready) return
  await new Promise<void>((resolve) => {
    writer.onReady = resolve
  })
}

/** Sends `body` the way a socket does: in chunks of changing size that vanish after the call, stopping when asked. */
export async function send(writer: BodyWriter, body: Uint8Array, chunkBytes = 200_000): Promise<void> {
  for (let at = 0; at < body.length; at += chunkBytes) {
    const chunk = Uint8Array.from(body.subarray(at, at + chunkBytes))
    writer.write(chunk)
    chunk.fill(0xee)
    await whenReady(writer)
  }
}

export async function store(writer: BodyWriter, body: Uint8Array, chunkBytes?: number): Promise<StoredBody> {
  await writer.start()
  await send(writer, body, chunkBytes)
  return await writer.finish()
}

/** The bytes of a stored body, read the plain way. */
export async function bytesOf(
  body: { readonly source: AudioRef['source']; readonly length: number },
  objects: Objects,
): Promise<Buffer> {
  if (body.source.kind === 'arriving' || body.source.kind === 'pieces') throw new Error('not at rest')
  if (body.source.kind === 'memory') {
    const { blocks } = body.source
    const whole = Buffer.concat(blocks.map((block) => Buffer.from(block)))
    for (const block of blocks.slice(0, -1)) if (block.length !== BLOCK_BYTES) throw new Error('short block')
    return whole.subarray(0, body.length)
  }
  const stream = await objects.get(body.source.key, 0, body.length, AbortSignal.timeout(20_000))
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}

export const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** Bytes that differ everywhere, so that a piece in the wrong place is seen. */
export const noise = (length: number) => randomBytes(length)

export async function sweepOnce(options: SweeperOptions): Promise<void> {
  const sweeper = await startSweeper(options)
  await sweeper.round()
  await sweeper.stop()
}

export async function keysOf(objects: Objects, prefix = ''): Promise<string[]> {
  const keys: string[] = []
  for await (const { key } of objects.list(prefix)) keys.push(key)
  return keys
}
