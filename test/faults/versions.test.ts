import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startFleet } from '../support/fleet.ts'
import { AUDIO_SECONDS, ask, keyedUpload } from '../support/keyed-call.ts'
import type { Program } from '../support/program.ts'
import { NO_TERMS } from '../support/state-under-test.ts'
import { waitUntil } from '../support/wait-until.ts'
import { releaseProgram, withoutRelease } from './release.ts'

/** With it a call comes to a whole number of micro-dollars. */
const HOUR_USD = 72
const CALL_MICROS = (HOUR_USD / 3_600) * AUDIO_SECONDS * 1_000_000
const JOBS = 6
const CALLERS = 4

t.test(
  'one data folder under the last release, today, the last release, and today',
  { skip: withoutRelease, timeout: 240_000 },
  async (t) => {
    const release = await releaseProgram()
    let program: Program | undefined = release
    const price = { per_hour_usd: HOUR_USD }
    const fleet = await startFleet(t, {
      program: () => program,
      providers: { sandbox: { kind: 'sandbox', access: 'byok', workspace: 'acme' } },
      workspaces: {
        acme: {
          entries: [{ provider: 'sandbox', model: 'morse-1', price, options: { delay_ms: 200 } }],
          key: { scopes: ['operator', 'inference', 'jobs'] },
        },
      },
    })
    const authorization = fleet.authorizationOf('acme')
    const uploadOf = (key: string) => keyedUpload(key, authorization)
    const answered = new Map<string, string>()
    const faults: unknown[] = []
    let calling = true
    /** Calls that are sent again under their key until they are answered: the node is away for a moment. */
    async function callOn(caller: number): Promise<void> {
      for (let number = 0; calling; number++) {
        const key = `call-${caller}-${number}`
        while (!answered.has(key)) {
          const answer = await ask(fleet.node().port, uploadOf(key)).catch(() => null)
          if (answer?.status === 200) answered.set(key, answer.text)
          else if (answer?.status === undefined || answer.status === 503) await sleep(50)
          else return void faults.push(answer)
        }
      }
    }
    const callers = Promise.all(Array.from({ length: CALLERS }, (_, caller) => callOn(caller)))

    const asked = async (
      method: string,
      path: string,
      type: string,
      body?: string | Uint8Array<ArrayBuffer>,
    ) => {
      const headers = { authorization, 'content-type': type }
      const init = body === undefined ? {} : { body }
      const response = await fetch(fleet.node().url + path, { method, headers, ...init })
      return (await response.json()) as Record<string, unknown>
    }
    const jobs: string[] = []
    const keys: string[] = []
    const viewOf = (id: string) => asked('GET', `/v1/transcription/jobs/${id}`, 'application/json')
    const version = async (number: number, next: Program | undefined) => {
      for (let job = 0; job < JOBS; job++) {
        const audio = new Uint8Array(uploadOf(`job-${number}-${job}`).body)
        jobs.push(`${(await asked('POST', '/v1/transcription/jobs', 'audio/wav', audio)).job_id}`)
      }
      const body = JSON.stringify({ name: `of ${number}`, app: 'web' })
      keys.push(`${(await asked('POST', '/v1/admin/workspaces/acme/keys', 'application/json', body)).key}`)
      const before = answered.size
      t.ok(await waitUntil(() => answered.size > before + 20, 30_000), 'calls are answered')
      program = next
      t.equal(await fleet.restartNode(0, 'SIGTERM'), 0)
      for (const key of keys) {
        const { status } = await fetch(`${fleet.node().url}/v1/me`, {
          headers: { authorization: `Bearer ${key}` },
        })
        t.equal(status, 200, 'a key of a version before')
      }
      const succeeded = async (id: string) => (await viewOf(id)).status === 'succeeded'
      const all = async () => (await Promise.all(jobs.map(succeeded))).every((one) => one)
      t.ok(await waitUntil(all, 30_000), 'jobs of every version are done, and kept')
    }
    await version(0, undefined)
    await version(1, release)
    await version(2, undefined)
    calling = false
    await callers
    t.same(faults, [])
    for (const [key, text] of answered)
      t.match(await ask(fleet.node().port, uploadOf(key)), { status: 200, replayed: true, text })
    t.equal(await fleet.node().signal('SIGTERM'), 0)
    const { accounts } = await fleet.openState()
    const { spentMicros } = await accounts.show('acme', NO_TERMS)
    t.equal(spentMicros, (answered.size + jobs.length) * CALL_MICROS, 'each was charged once')
    t.comment(`${answered.size} calls and ${jobs.length} jobs`)
  },
)
