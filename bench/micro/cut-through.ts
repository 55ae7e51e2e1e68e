import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLogger } from '../../src/contracts/log.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { UWS_ENVIRONMENT } from '../../src/gateway/edge/uws.ts'
import { openServer } from '../../src/gateway/node/serve.ts'
import { median } from '../harness/result.ts'
import { makeAudio } from '../load/request.ts'

// Gain of a caller whose upload is sent on while it comes. One upload at a time, by two entries of one node that
// take turns: whole bodies, and `cut_through`. Caller and provider each have a pace. What is told of both is the time
// from the caller's first byte to the provider's, from its last byte to its answer, and CPU of all three together.
// usage: node bench/micro/cut-through.ts [ROUNDS]

const ROUNDS = Number(process.argv[2] ?? 5)
const MB = 1_000_000
const UNBOUND = Number.POSITIVE_INFINITY
const LOADS = [
  { body: 4 * MB, caller: 2 * MB, provider: 4 * MB },
  { body: 4 * MB, caller: 2 * MB, provider: UNBOUND },
  { body: 25 * MB, caller: 12 * MB, provider: 25 * MB },
  { body: 25 * MB, caller: UNBOUND, provider: UNBOUND },
] as const
/** Least that there may be, so that bodies over it go to the store. */
const STORED_MIB = 8
const MEMORY_MIB = { held: 64, stored: STORED_MIB } as const
const WAYS = ['whole', 'cut'] as const

interface Upload {
  readonly firstMs: number
  readonly tailMs: number
  readonly cpuMs: number
}

/** Takes bytes no faster than a pace. */
class Pace {
  readonly #bytesPerSecond: number
  readonly #beganMs = performance.now()
  #bytes = 0

  constructor(bytesPerSecond: number) {
    this.#bytesPerSecond = bytesPerSecond
  }

  /** Milliseconds that it is ahead. */
  ahead(bytes: number): number {
    this.#bytes += bytes
    return (this.#bytes / this.#bytesPerSecond) * 1000 - (performance.now() - this.#beganMs)
  }
}

/** A Deepgram that reads at a pace, and knows when the first byte of the last body came. */
class Provider {
  bytesPerSecond = UNBOUND
  firstByteMs = 0
  readonly #server = createServer((socket) => this.#serve(socket))

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return (this.#server.address() as AddressInfo).port
  }

  close(): void {
    this.#server.close()
  }

  #serve(socket: Socket): void {
    let head = ''
    let left = -1
    let pace = new Pace(this.bytesPerSecond)
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      let bytes = chunk.length
      if (left < 0) {
        head += chunk.toString('latin1')
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) return
        left = Number(/content-length: (\d+)/i.exec(head)?.[1])
        bytes = head.length - end - 4
        head = ''
        pace = new Pace(this.bytesPerSecond)
        this.firstByteMs = performance.now()
      }
      left -= bytes
      const aheadMs = pace.ahead(bytes)
      if (aheadMs > 5) {
        socket.pause()
        setTimeout(() => socket.resume(), aheadMs)
      }
      if (left > 0) return
      left = -1
      const alternatives = [{ transcript: 'ok', confidence: 1, words: [] }]
      const text = JSON.stringify({ metadata: { duration: 1 }, results: { channels: [{ alternatives }] } })
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
      )
    })
  }
}

/** Sends one raw body at a pace, and waits for the answer. */
async function upload(
  port: number,
  key: string,
  body: Buffer,
  bytesPerSecond: number,
  provider: Provider,
): Promise<Upload> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  const answered = once(socket, 'data')
  const cpu = process.cpuUsage()
  const head = `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`
  socket.write(`${head}Content-Type: audio/wav\r\nContent-Length: ${body.length}\r\n\r\n`)
  const beganMs = performance.now()
  const pace = new Pace(bytesPerSecond)
  for (let at = 0; at < body.length; at += 64 * 1024) {
    const slice = body.subarray(at, at + 64 * 1024)
    const aheadMs = pace.ahead(slice.length)
    if (aheadMs > 5) await sleep(aheadMs)
    if (!socket.write(slice)) await once(socket, 'drain')
  }
  const sentMs = performance.now()
  const [answer] = (await answered) as [Buffer]
  const endedMs = performance.now()
  socket.destroy()
  if (!answer.toString('latin1').startsWith('HTTP/1.1 200')) throw new Error(answer.toString('latin1'))
  const { user, system } = process.cpuUsage(cpu)
  return {
    firstMs: provider.firstByteMs - beganMs,
    tailMs: endedMs - sentMs,
    cpuMs: (user + system) / 1000,
  }
}

function configuration(providerPort: number, keys: Readonly<Record<(typeof WAYS)[number], string>>) {
  const provider = { kind: 'deepgram', access: 'byok', workspace: 'bench', api_key: `\${EAR_KEY}` }
  const entry = { provider: 'ear', model: 'nova-3' }
  return {
    providers: { ear: { ...provider, base_url: `http://127.0.0.1:${providerPort}` } },
    routes: {
      whole: { workspace: 'bench', entries: [entry] },
      cut: { workspace: 'bench', entries: [{ ...entry, cut_through: true }] },
    },
    workspaces: {
      bench: {
        apps: { whole: { route: 'whole' }, cut: { route: 'cut' } },
        keys: WAYS.map((way) => ({ id: `key_${way}`, app: way, sha256: hashKey(keys[way]) })),
      },
    },
  }
}

async function measure(
  tier: keyof typeof MEMORY_MIB,
  provider: Provider,
  providerPort: number,
): Promise<void> {
  const keys = { whole: makeKey(), cut: makeKey() }
  const folder = await mkdtemp(join(tmpdir(), 'larkway-bench-'))
  const config = join(folder, 'larkway.yaml')
  await writeFile(config, JSON.stringify(configuration(providerPort, keys)))
  const env = { PORT: '0', HOST: '127.0.0.1', LARKWAY_DATA: folder, LARKWAY_CONFIG: config, EAR_KEY: 'k' }
  const memory = { LARKWAY_MEMORY_MIB: `${MEMORY_MIB[tier]}`, LOG_LEVEL: 'warn' }
  const node = await openServer({ ...env, ...memory }, ({ LOG_LEVEL }) => createLogger(LOG_LEVEL))
  try {
    for (const load of LOADS) {
      if (tier === 'stored' && load.body < STORED_MIB * 1024 * 1024) continue
      const body = makeAudio(load.body)
      provider.bytesPerSecond = load.provider
      const runs = { whole: [] as Upload[], cut: [] as Upload[] }
      for (let round = 0; round <= ROUNDS; round += 1) {
        for (const way of round % 2 === 0 ? WAYS : WAYS.toReversed()) {
          const run = await upload(node.port ?? 0, keys[way], body, load.caller, provider)
          if (round > 0) runs[way].push(run)
        }
      }
      const pace = (bytes: number) => (bytes === UNBOUND ? 'unbound' : `${bytes / MB} MB/s`)
      console.log(
        `${tier}: ${load.body / MB} MB, caller ${pace(load.caller)}, provider ${pace(load.provider)}`,
      )
      for (const way of WAYS) {
        const of = (name: keyof Upload) => median(runs[way].map((run) => run[name])).toFixed(1)
        const waits = `first byte ${of('firstMs')} ms, answer ${of('tailMs')} ms behind the last`
        console.log(`  ${way.padEnd(5)} ${waits}, CPU ${of('cpuMs')} ms`)
      }
    }
  } finally {
    await node.close()
    await rm(folder, { recursive: true, force: true })
  }
}

Object.assign(process.env, UWS_ENVIRONMENT)
const provider = new Provider()
const providerPort = await provider.listen()
for (const tier of ['held', 'stored'] as const) await measure(tier, provider, providerPort)
provider.close()
process.exit()
