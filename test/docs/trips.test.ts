import { Session } from 'node:inspector/promises'
import t, { type Test } from 'tap'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { LiveClient } from '../support/live-client.ts'
import { section } from '../support/manual.ts'
import { filledWav } from '../support/wav.ts'

const PAGE = 'docs/architecture.md'
const SOURCES = new URL('../../src/', import.meta.url).href
const SECOND_BYTES = 32_000
const WAV = filledWav(44 + SECOND_BYTES, 1)

const authorizationOf = ({ key }: Gateway) => ({ authorization: `Bearer ${key}` })

async function transcribe(t: Test, gateway: Gateway): Promise<void> {
  const body = new FormData()
  body.set('file', new Blob([WAV], { type: 'audio/wav' }), 'a.wav')
  const headers = authorizationOf(gateway)
  const response = await fetch(`${gateway.url}/v1/transcription`, { method: 'POST', headers, body })
  t.equal(response.status, 200, await response.text())
}

async function speakLive(t: Test, gateway: Gateway): Promise<void> {
  const url = `${gateway.url.replace('http', 'ws')}/v1/transcription/stream?sample_rate=16000`
  const client = new LiveClient(url, ['larkway.v1'], { headers: authorizationOf(gateway) })
  await client.open()
  client.send(new Uint8Array(SECOND_BYTES))
  client.send({ type: 'end' })
  t.match(await client.ended, { code: 1000 })
}

/** The files of `src/` whose functions ran while `work` did, in this thread. */
async function filesOf(work: () => Promise<void>): Promise<ReadonlySet<string>> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await work()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  const ran = result.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
  return new Set(ran.map(({ url }) => url).filter((url) => url.startsWith(SOURCES)))
}

/** The files that a trip of the page names, in their order. */
const stationsOf = (title: string) =>
  [...section(title, PAGE).matchAll(/^\d+\. `([\w./-]+\.ts)`: /gm)].map(([, path = '']) => path)

const TRIPS: readonly (readonly [
  title: string,
  most: number,
  run: (t: Test) => Promise<ReadonlySet<string>>,
])[] = [
  ['The trip of a transcription', 30, (t) => withGateway(t, (gateway) => transcribe(t, gateway))],
  ['The trip of a live session', 20, (t) => withGateway(t, (gateway) => speakLive(t, gateway))],
  [
    'The trip of a usage record',
    10,
    (t) =>
      withGateway(t, async (gateway) => {
        await transcribe(t, gateway)
        await gateway.signal('SIGTERM')
      }),
  ],
]

async function withGateway(t: Test, work: (gateway: Gateway) => Promise<void>) {
  const gateway = await startGateway(t, { env: { LARKWAY_USAGE: 'true' } })
  return filesOf(() => work(gateway))
}

for (const [title, most, run] of TRIPS)
  t.test(title, async (t) => {
    const stations = stationsOf(title)
    t.ok(stations.length > most / 2 && stations.length <= most, `${stations.length} files, at most ${most}`)
    const ran = await run(t)
    t.same(
      stations.filter((path) => !ran.has(SOURCES + path)),
      [],
      'each is on the way',
    )
  })
