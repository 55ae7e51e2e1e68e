import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Candidate, type Found, larkway } from '../candidates.ts'
import type { Driven, Session, Trial } from '../harness/measure.ts'
import { larkwaySpeech } from '../larkway.ts'
import { sha256 } from '../load/request.ts'
import type { RequestReport, RequestTask } from '../load/requests.ts'
import { overRedis, startRedis } from '../redis.ts'
import { SPEECH } from '../upstream-replies.ts'
import { ONCE, type Scenario, sort, upload, WARM_UP_SECONDS } from './scenario.ts'

const CONNECTIONS = 64
const INPUT = 'Hello.'
const DEFAULT_BUDGET_MIB = 256
/** A node leases nothing until it is sure that all others have counted it. */
const COUNTED_MS = 6_000
/** So small that no lease fits in, and enough for the connections of a key. */
const SMALL_BURST = 19

/** Cost of limits that nodes share: the same tiny call without Redis, with it, and with tokens leased. */
export const limiter: Scenario = {
  name: 'limiter',
  title: 'Rate limits',
  cpuUnit: 'us/request',
  network: 'system',
  rounds: 3,
  upstream: { program: 'upstream.ts', args: [] },

  async plan({ quick }) {
    const own = (name: string, label: string) => larkway({ name, label, memoryMib: DEFAULT_BUDGET_MIB })
    const redis = await startRedis({ durable: false })
    const asked = own('larkway-redis', 'Larkway, Redis asked each time')
    const { found, skipped } = await sort<null>([
      [own('larkway', 'Larkway, limits in the process'), null],
      [withBurst(overRedis(asked, redis), SMALL_BURST), null],
      [overRedis(own('larkway-leases', 'Larkway, Redis and leases'), redis), null],
    ])
    return { trials: found.map(([candidate]) => trial(candidate, quick)), skipped }
  },
}

/** The same server with another `burst` of every key. */
function withBurst(found: Found, burst: number): Found {
  if (!('candidate' in found)) return found
  const { candidate } = found
  return {
    candidate: {
      ...candidate,
      async command(place) {
        const command = await candidate.command(place)
        setBurst(join(place.folder, 'larkway.yaml'), burst)
        return command
      },
    },
  }
}

function setBurst(path: string, burst: number): void {
  const change = (key: string, value: unknown) => (key === 'burst' ? burst : value)
  writeFileSync(path, JSON.stringify(JSON.parse(readFileSync(path, 'utf8'), change)))
}

function trial(candidate: Candidate, quick: boolean): Trial {
  return {
    candidate,
    load: 'POST /v1/speech',
    async verify(session) {
      const { lastReply, firstFailure } = await upload(session, () => larkwaySpeech('own', INPUT), ONCE)
      if (lastReply?.status !== 200) throw new Error(`verification: ${firstFailure}`)
      const [block] = (JSON.parse(lastReply.body) as { content_blocks: { base64: string }[] }).content_blocks
      if (block === undefined || sha256(Buffer.from(block.base64, 'base64')) !== sha256(SPEECH))
        throw new Error(`wrong answer: ${lastReply.body.slice(0, 200)}`)
    },
    async warmUp(session) {
      await sleep(COUNTED_MS)
      await drive(session, quick ? 1 : WARM_UP_SECONDS)
    },
    run: (session) => session.measure(() => drive(session, quick ? 1 : 2)),
  }
}

async function drive({ lab, port }: Session, seconds: number): Promise<Driven> {
  const request = larkwaySpeech('own', INPUT)
  const task: RequestTask = { port, request, connections: CONNECTIONS, seconds }
  return { ...(await lab.generate<RequestTask, RequestReport>('autocannon', task)), bodyBytes: 0 }
}
