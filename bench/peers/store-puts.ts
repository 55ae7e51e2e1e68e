import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { newJobId } from '../../src/contracts/ids.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { createS3Objects } from '../../src/gateway/storage/s3.ts'
import { makeAudio } from '../load/request.ts'
import { type Quantiles, Samples } from '../load/samples.ts'

// The object store by itself, through the very client that Larkway uses: how often audio can be put there at most.
// usage: node bench/peers/store-puts.ts PORT FOLDER; the variables of S3 name a bucket instead of the folder

/** Body of `POST /`, as JSON. */
export interface PutsTask {
  readonly bytes: number
  readonly connections: number
  readonly count: number
}

export interface PutsReport {
  readonly puts: number
  readonly seconds: number
  readonly latencyMs: Quantiles
}

const [port, folder = ''] = process.argv.slice(2)
const objects = await open()
/** Keys of the last task, deleted before the next: a store in memory has no room for all. */
let keys: string[] = []

createServer(async (request, response) => {
  try {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    const answer = request.method === 'POST' ? await puts(JSON.parse(Buffer.concat(chunks).toString())) : {}
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(answer))
  } catch (error) {
    response.statusCode = 500
    response.end(String((error as Error).stack))
  }
}).listen(Number(port), '127.0.0.1')

async function open(): Promise<Objects> {
  const { S3_ENDPOINT: endpoint, S3_BUCKET: bucket, S3_REGION: region = 'us-east-1' } = process.env
  const { S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey } = process.env
  if (!endpoint || !bucket || !accessKeyId || !secretAccessKey) return await createFileObjects(folder)
  return createS3Objects({ endpoint, bucket, region, accessKeyId, secretAccessKey })
}

async function puts({ bytes, connections, count }: PutsTask): Promise<PutsReport> {
  const audio = makeAudio(bytes)
  const signal = new AbortController().signal
  await inLines(connections, keys, (key) => objects.remove(key))
  keys = Array.from(
    { length: count },
    () => `job/bench/${newJobId('tj', 'bench')}/${randomBytes(8).toString('hex')}`,
  )
  const latencies = new Samples()
  const startMs = performance.now()
  await inLines(connections, keys, async (key) => {
    const begunMs = performance.now()
    await objects.put(key, once(audio), bytes, { signal })
    latencies.add(performance.now() - begunMs)
  })
  const seconds = (performance.now() - startMs) / 1000
  await compare(keys.at(-1)!, audio, signal)
  return { puts: count, seconds, latencyMs: latencies.quantiles() }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** @throws Error unless the store gives back what it was given */
async function compare(key: string, audio: Buffer, signal: AbortSignal): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of await objects.get(key, 0, audio.length, signal)) chunks.push(Buffer.from(chunk))
  if (!Buffer.concat(chunks).equals(audio)) throw new Error('the store gave back other bytes')
}

async function inLines<Item>(
  lines: number,
  items: readonly Item[],
  act: (item: Item) => Promise<void>,
): Promise<void> {
  let next = 0
  const line = async () => {
    while (next < items.length) await act(items[next++]!)
  }
  await Promise.all(Array.from({ length: lines }, line))
}
