import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { headOf } from '../support/audio-fetch.ts'
import {
  ANSWERS,
  FAILED,
  good,
  LENGTH,
  NOT_DELIVERED,
  REJECTED,
  redirect,
  SOUND,
  TARGETS,
  TYPE,
} from '../support/guard-answers.ts'
import { startGuardRig } from '../support/guard-rig.ts'
import type { Answering } from '../support/tls-host.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(120_000)

const MIB = 1024 * 1024
const URL_OF_AUDIO = 'https://good.example/a.mp3'
const URL_OF_HOOK = 'https://good.example/hook'
const PLACE = '8.8.8.8 443'
const DOMAINS = ['good.example', 'other.example', 'inner.example', 'gone.example']

async function start(t: Test) {
  const resolve = async (name: string) =>
    ({ 'inner.example': ['10.0.0.1'], 'gone.example': [] })[name] ?? ['8.8.8.8']
  const rig = await startGuardRig(t, { domains: DOMAINS, resolve })
  t.equal(await rig.putWebhook(URL_OF_HOOK), 200)

  /** Fetches at once and by a job, and delivers the event of that. @returns what became of the event */
  async function throughAll(t: Test, name: string, outcome: string, url = URL_OF_AUDIO): Promise<string> {
    t.equal(await rig.transcribe(url), outcome, name)
    const { id, word } = await rig.run(url)
    t.equal(word, outcome === 'heard' ? 'heard' : `failed: ${outcome}`, 'by a job')
    return rig.delivery(id!)
  }

  return { rig, throughAll }
}

t.test('answers', async (t) => {
  const { rig, throughAll } = await start(t)
  let hearings = 0
  for (const [name, [answer, outcome]] of Object.entries(ANSWERS)) {
    rig.answer = (socket) => socket.end(answer, 'latin1')
    rig.dialled.length = 0
    t.equal(await throughAll(t, name, outcome), NOT_DELIVERED[name] ?? 'delivered', 'its event')
    // A host that failed is asked again by the job, one that has answered is not.
    t.same(rig.dialled, Array(outcome.startsWith(FAILED) ? 5 : 3).fill(PLACE))
    if (outcome === 'heard') hearings += 2
  }
  t.equal(rig.heard(), hearings, 'nothing else reaches a provider')
  t.equal(rig.sentinels(), 0)
})

t.test('targets of redirects', async (t) => {
  const { rig, throughAll } = await start(t)
  for (const [name, [location, outcome]] of Object.entries(TARGETS)) {
    rig.answer = (socket, head) =>
      socket.end(head.startsWith('GET /there ') ? SOUND : redirect(location), 'latin1')
    t.equal(await throughAll(t, name, outcome), 'status 302', 'a webhook follows none')
  }
  t.same([...new Set(rig.dialled)], [PLACE])
  const posted = rig.requests.filter((head) => head.startsWith('POST '))
  t.equal(posted.length, Object.keys(TARGETS).length)
  t.ok(posted.every((head) => head.startsWith('POST /hook HTTP/1.1\r\nhost: good.example\r\n')))
  t.equal(rig.sentinels(), 0)
})

t.test('statuses of redirects, and how many there may be', async (t) => {
  const { rig, throughAll } = await start(t)
  const step = /^GET \/(\d) /
  let status = 302
  rig.answer = (socket, head) => {
    const left = Number(step.exec(head)?.[1])
    socket.end(left === 0 ? SOUND : redirect(`/${left - 1}`, status), 'latin1')
  }
  for (status of [301, 302, 303, 307, 308])
    t.equal(await throughAll(t, `${status}`, 'heard', 'https://good.example/3'), `status ${status}`)
  t.equal(
    await throughAll(t, 'four', `${REJECTED} too_many_redirects`, 'https://good.example/4'),
    'status 308',
  )
  t.equal(rig.requests.filter((head) => head.startsWith('GET /0 ')).length, 10, 'the fifth is not asked')
})

/** Half of a body, and then the end of the connection in one way or another. */
const halfway =
  (end: (socket: Parameters<Answering>[0]) => void): Answering =>
  (socket) =>
    socket.write(headOf(1000) + 'x'.repeat(500), () => end(socket))

const BODIES: Record<string, [answer: Answering, outcome: string]> = {
  '30 MB, of which 10 bytes are declared': [
    (socket) => {
      socket.write(headOf(10))
      for (let megabytes = 0; megabytes < 30; megabytes += 1) socket.write(Buffer.alloc(MIB))
    },
    FAILED,
  ],
  'half of what is declared, in order': [halfway((socket) => socket.end()), FAILED],
  'half of what is declared, without a word of TLS': [halfway((socket) => socket.destroy()), FAILED],
  '10 KB of gzip, 10 MB in fact': [
    (socket) => {
      const bomb = gzipSync(Buffer.alloc(10 * MIB))
      socket.write(headOf(bomb.length, 'Content-Encoding: gzip'))
      socket.end(bomb)
    },
    `${REJECTED} unsupported_content_type`,
  ],
  'a byte more than may be': [(socket) => socket.write(headOf(25 * MIB + 1)), 'AUDIO_TOO_LARGE'],
  'all that may be': [(socket) => socket.end(Buffer.concat([Buffer.from(headOf(25 * MIB)), FULL])), 'heard'],
}
const FULL = filledWav(25 * MIB, 1)

t.test('bodies', async (t) => {
  const { rig, throughAll } = await start(t)
  for (const [name, [answer, outcome]] of Object.entries(BODIES)) {
    rig.answer = (socket, head, index) =>
      head.startsWith('POST ') ? socket.end(good(TYPE, LENGTH), 'latin1') : answer(socket, head, index)
    t.equal(await throughAll(t, name, outcome), 'delivered')
  }
  t.equal(rig.heard(), 2, 'nothing that was cut reaches a provider')

  // Webhooks read no further than they need.
  for (const [name, [answer]] of Object.entries(BODIES)) {
    rig.answer = answer
    t.equal(await rig.deliver(), 'delivered', name)
  }
})
