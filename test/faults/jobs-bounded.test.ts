import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t from 'tap'
import { openEmbeddedState } from '../../src/state/embedded/state.ts'
import { buffersAreCapped, inCappedNetwork } from '../support/capped-network.ts'
import { FORMS, submissionOf, upload } from '../support/fleet-uploads.ts'
import { customersOf } from '../support/job-fleet.ts'
import { startLarkway } from '../support/larkway.ts'
import { MemoryWatch, residentMiB } from '../support/resident-memory.ts'
import { tempFolder } from '../support/scratch.ts'
import { assertStopsClean } from '../support/stopped.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(400_000)

const MEMORY_MIB = 32
const JOBS = process.env.LARKWAY_TEST_LONG === '1' ? 200 : 40
const AUDIO_BYTES = 20_000_000
/** Of one server, whose audio altogether is many times its budget. */
const ENV = {
  LARKWAY_MEMORY_MIB: `${MEMORY_MIB}`,
  LARKWAY_JOBS: '16',
  LARKWAY_JOBS_PER_WORKSPACE: '16',
}
/**
 * What the heap has beside what is counted, and half a MiB for each connection, of which the kernel hands over no more
 * at a time. The audio of those jobs that run at a time would be over it.
 */
const OVERHEAD_MIB = 90 + JOBS / 2
const ENDED_MS = 120_000

/** A wav like no other. */
function wavOf(at: number): Buffer {
  const wav = filledWav(AUDIO_BYTES, at)
  wav.writeUInt32LE(at, 100)
  return wav
}

await inCappedNetwork(t, import.meta.url, () => {
  t.test(`${JOBS} jobs of 20 MB at once with ${MEMORY_MIB} MiB`, async (t) => {
    const upstream = await startUpstream(t)
    // Those at the provider hold what they hold for a while.
    upstream.behave('whisper-1', { before: () => sleep(300) })
    const { config, customer } = customersOf({ upstreamUrl: upstream.url, workspaces: 1 })
    const dataFolder = await tempFolder(t)
    const gateway = await startLarkway(t, { config, dataFolder, env: ENV })
    const log = pino({ level: 'silent' })
    const state = await openEmbeddedState({ file: join(dataFolder, 'state.sqlite'), log })
    t.teardown(() => state.close())
    const idleMiB = residentMiB(gateway.pid)
    const memory = new MemoryWatch(gateway.pid)

    const acknowledged = new Map<string, string>()
    const refusals: Record<string, number> = {}
    const handIn = async (at: number): Promise<void> => {
      const wav = wavOf(at)
      const bytes = submissionOf(FORMS[at % FORMS.length] ?? 'raw', wav, customer.authorizationOf('ws_0'))
      for (;;) {
        const answer = await upload(gateway.port, bytes)
        if ('id' in answer) {
          acknowledged.set(answer.id, createHash('sha256').update(wav).digest('hex'))
          return
        }
        refusals[answer.refusal] = (refusals[answer.refusal] ?? 0) + 1
        if (answer.refusal !== '503 OVERLOADED') throw new Error(answer.refusal)
        await sleep(answer.againMs * (0.5 + Math.random()))
      }
    }
    await Promise.all(Array.from({ length: JOBS }, (_, at) => handIn(at)))
    t.comment(`told to come again: ${JSON.stringify(refusals)}`)
    t.equal(acknowledged.size, JOBS)

    const all = () => Promise.all([...acknowledged.keys()].map((id) => state.jobs.get(id)))
    const ended = await waitUntil(async () => {
      await sleep(200)
      return (await all()).every((job) => job?.endedAtMs !== null)
    }, ENDED_MS)
    const peakMiB = memory.stop()
    t.ok(ended, 'all have ended')
    t.same(
      (await all()).filter((job) => job?.status !== 'succeeded').map((job) => job?.error),
      [],
      'all have succeeded',
    )
    const heard = upstream.received.map(({ sha256 }) => sha256)
    t.same(
      heard.sort(),
      [...acknowledged.values()].sort(),
      'the provider has heard the very audio of each, once',
    )

    const boundMiB = buffersAreCapped() ? idleMiB + 1.1 * MEMORY_MIB + OVERHEAD_MIB : 2_000
    t.ok(peakMiB < boundMiB, `memory stays under ${Math.round(boundMiB)} MiB`)
    t.comment(`resident memory: ${Math.round(idleMiB)} MiB when idle, ${Math.round(peakMiB)} MiB at its peak`)
    await assertStopsClean(t, gateway)
  })
})
