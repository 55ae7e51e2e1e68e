import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { type Test, test } from 'tap'
import { WebSocketServer } from 'ws'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { configuredProvider, entry, facts } from '../../support/catalog.ts'
import { LIVE_FACTS, openLive } from '../../support/live-rig.ts'
import { RATE } from '../../support/live-words.ts'

type Times = readonly [start: number | null, end: number | null]

/** A final of Deepgram's protocol. @param words each with its times, seconds */
function results([start, end]: Times, words: Readonly<Record<string, Times>>, isTimed = true): object {
  const transcript = Object.keys(words).join(' ')
  const timed = Object.entries(words).map(([word, [from, to]]) => ({ word, start: from, end: to }))
  return {
    type: 'Results',
    channel_index: [0, 1],
    start,
    duration: Number(end) - Number(start),
    is_final: true,
    channel: { alternatives: [{ transcript, words: isTimed ? timed : [] }] },
  }
}

const one = (word: string, times: Times, isTimed = true) => results(times, { [word]: times }, isTimed)

/** Deepgram over a real socket, which says what it is told to once it has heard a whole number of seconds. */
async function serveScript(t: Test, script: Readonly<Record<number, readonly object[]>>) {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  let connections = 0
  server.on('connection', (socket) => {
    connections += 1
    let bytes = 0
    let said = 0
    socket.on('message', (data, isBinary) => {
      if (isBinary) bytes += (data as Buffer).length
      for (; said < Math.floor(bytes / (2 * RATE)); said += 1)
        for (const message of script[said + 1] ?? []) socket.send(JSON.stringify(message))
      if (isBinary || JSON.parse(String(data)).type !== 'CloseStream') return
      socket.send(JSON.stringify({ type: 'Metadata', duration: bytes / (2 * RATE), channels: 1 }))
      socket.close(1000)
    })
  })
  t.teardown(() => {
    for (const socket of server.clients) socket.terminate()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { origin: `http://127.0.0.1:${port}`, connections: () => connections }
}

async function hear(t: Test, script: Readonly<Record<number, readonly object[]>>, seconds = 4) {
  const server = await serveScript(t, script)
  const provider = configuredProvider({ name: 'first', kind: 'deepgram', baseUrl: server.origin })
  const made = entry({
    provider,
    model: 'nova-3',
    facts: facts({ live: { ...LIVE_FACTS, replay_speed: 8 } }),
  })
  const rig = await openLive(t, [made], { providers: [PROVIDERS.get('deepgram')!] })
  const caller = rig.connect(`sample_rate=${RATE}&timestamps=word`)
  await caller.message('ready')
  await caller.speak(Buffer.alloc(seconds * 2 * RATE), 8)
  caller.send({ type: 'end' })
  const done = await caller.message('done')
  const told = caller.of('final').flatMap(({ segment }) => segment as { start: number; end: number })
  const words = done.words as { word: string; start: number; end: number }[]
  for (const spans of [told, words]) {
    let last = 0
    for (const { start, end } of spans) {
      t.ok(last <= start && start <= end && end <= seconds, `${start} to ${end}, behind ${last}`)
      last = end
    }
  }
  const health = rig.services.health.condition(made, performance.now())
  return { text: caller.text, done, health, words, connections: server.connections(), caller }
}

const FIRST = one('one', [0.2, 0.8])
const SECOND = one('two', [1.2, 1.8])
const LAST = one('end', [3.2, 3.8])

/** What comes behind two finals, and what is heard in all. */
const SCRIPTS: Readonly<Record<string, readonly [told: object, text: string]>> = {
  'the same final again': [SECOND, 'one two end'],
  'an older one': [FIRST, 'one two end'],
  'both in one': [results([0, 2], { one: [0.2, 0.8], two: [1.2, 1.8] }), 'one two end'],
  'both and a new word': [
    results([0, 3], { one: [0.2, 0.8], two: [1.2, 1.8], three: [2.2, 2.6] }),
    'one two three end',
  ],
  'the last text, somewhat later': [one('two', [1.4, 2.1]), 'one two end'],
  'the last text without times of words': [one('two', [1.2, 1.8], false), 'one two end'],
  'a new word that begins too early': [one('three', [1.6, 2.4]), 'one two three end'],
  'new words that overlap': [
    results([2, 3], { three: [2.1, 2.9], four: [2.2, 2.5] }),
    'one two three four end',
  ],
  'a word that ends behind the audio': [one('three', [2.4, 9]), 'one two three end'],
  'a word without times': [one('three', [null, null]), 'one two end'],
  'times of words that are none': [results([2, 3], { three: [null, -1] }), 'one two three end'],
}

for (const [name, [told, text]] of Object.entries(SCRIPTS))
  test(`each word comes once, in order and in its time: ${name}`, async (t) => {
    const heard = await hear(t, { 1: [FIRST], 2: [SECOND], 3: [told], 4: [LAST] })
    t.equal(heard.text, text)
    t.equal(heard.done.content, text)
    t.equal(heard.health.lastFailure, null)
  })

test('text of a time that no audio came for is left out, and counts against the entry', async (t) => {
  const far = one('far', [102, 102.5])
  const mixed = results([2, 103], { three: [2.2, 2.8], far: [102, 103] })
  const heard = await hear(t, { 1: [FIRST, far], 2: [SECOND], 3: [mixed], 4: [LAST] })
  t.equal(heard.text, 'one two three end')
  t.equal(heard.connections, 1, 'the session went on')
  t.match(heard.health.lastFailure, { failure: { kind: 'server', reason: /no audio/ } })
})

test('a provider that goes on so is left, and nothing is lost', async (t) => {
  const far = (at: number) => one(`far${at}`, [100 + at, 101 + at])
  const heard = await hear(t, { 1: [FIRST], 2: [far(1), far(2)], 3: [far(3)], 4: [] })
  t.equal(heard.text.split(' ')[0], 'one')
  t.ok(heard.connections >= 2)
  t.match(heard.caller.of('switched')[0], { lost_seconds: 0, at_seconds: 0.8 })
})
