import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { principal } from '../../support/catalog.ts'
import { Dice } from '../../support/dice.ts'
import { openLive, wordsEntry } from '../../support/live-rig.ts'
import { serveWords, wordsAudio } from '../../support/live-words.ts'
import type { HandshakeLines, RawEnd } from '../../support/raw-frames.ts'
import { BINARY, CLOSE, frame, handshake, PING, PONG, RawClient, TEXT } from '../../support/raw-frames.ts'

const text = (message: object) => frame({ opcode: TEXT, payload: JSON.stringify(message) })
const AUDIO = wordsAudio(0, 1).subarray(0, 3_200)
const END = text({ type: 'end' })
/** Cut without a close frame: what a protocol error is answered with. */
const CUT = null

/** What is sent behind the handshake, and the close code that ends it. */
const FRAMES: Readonly<Record<string, readonly [code: number | null, ...bytes: Buffer[]]>> = {
  'audio, then the end': [1000, frame({ opcode: BINARY, payload: AUDIO }), END],
  'audio in three fragments': [
    1000,
    frame({ opcode: BINARY, payload: AUDIO.subarray(0, 1000), fin: false }),
    frame({ opcode: 0, payload: AUDIO.subarray(1000, 2000), fin: false }),
    frame({ opcode: 0, payload: AUDIO.subarray(2000) }),
    END,
  ],
  'a ping between two fragments': [
    1000,
    frame({ opcode: TEXT, payload: '{"type":', fin: false }),
    frame({ opcode: PING, payload: 'here' }),
    frame({ opcode: 0, payload: '"end"}' }),
  ],
  'an unasked pong': [1000, frame({ opcode: PONG, payload: 'x' }), END],
  'a close frame': [1000, frame({ opcode: CLOSE, payload: Buffer.from([0x03, 0xe8]) })],
  'a close frame without a code': [1005, frame({ opcode: CLOSE })],
  'half a sample': [4400, frame({ opcode: BINARY, payload: AUDIO.subarray(0, 3) })],
  'audio behind the end': [4400, END, frame({ opcode: BINARY, payload: AUDIO })],
  'text that is no JSON': [4400, frame({ opcode: TEXT, payload: '{"type":' })],
  'JSON that is no object': [4400, frame({ opcode: TEXT, payload: '[1]' })],
  'an empty text': [4400, frame({ opcode: TEXT })],
  'an unknown type': [4400, text({ type: 'shout' })],
  'a second start': [4400, text({ type: 'start' })],
  'an id that is no text': [4400, text({ type: 'finalize', id: { a: 1 } })],
  'an id that is too long': [4400, text({ type: 'finalize', id: 'x'.repeat(129) })],
  'JSON that is nested deeply': [4400, frame({ opcode: TEXT, payload: '['.repeat(100_000) })],
  'a key of prototypes': [4400, frame({ opcode: TEXT, payload: '{"__proto__":{"type":"end"}}' })],
  'a message over the limit': [4413, frame({ opcode: BINARY, payload: Buffer.alloc(262_146) })],
  'a message far over the limit': [CUT, frame({ opcode: BINARY, payload: Buffer.alloc(400_000) })],
  'a length of 2^63': [CUT, frame({ opcode: BINARY, length: 1n << 63n, lengthBytes: 8 })],
  'a length of 2^32': [CUT, frame({ opcode: BINARY, length: 1n << 32n, lengthBytes: 8 })],
  'the largest length': [CUT, frame({ opcode: TEXT, length: (1n << 64n) - 1n, lengthBytes: 8 })],
  'a reserved bit': [CUT, frame({ opcode: TEXT, payload: '{}', reserved: 4 })],
  'all reserved bits': [CUT, frame({ opcode: BINARY, payload: AUDIO, reserved: 7 })],
  'a reserved opcode': [CUT, frame({ opcode: 3, payload: 'x' })],
  'a reserved control opcode': [CUT, frame({ opcode: 11 })],
  'a control frame in fragments': [CUT, frame({ opcode: PING, payload: 'x', fin: false })],
  'a ping that is too long': [CUT, frame({ opcode: PING, payload: Buffer.alloc(126) })],
  'a continuation of nothing': [CUT, frame({ opcode: 0, payload: 'x' })],
  'a message within a message': [
    CUT,
    frame({ opcode: TEXT, payload: '{', fin: false }),
    frame({ opcode: TEXT, payload: '}' }),
  ],
  'text that is no UTF-8': [CUT, frame({ opcode: TEXT, payload: Buffer.from([0xc3, 0x28]) })],
  'half a surrogate pair': [CUT, frame({ opcode: TEXT, payload: Buffer.from([0xed, 0xa0, 0x80]) })],
  'UTF-8 that is cut between fragments wrongly': [
    CUT,
    frame({ opcode: TEXT, payload: Buffer.from([0xc3]), fin: false }),
    frame({ opcode: 0, payload: Buffer.from([0x28]) }),
  ],
  'fragments that add up to too much': [
    CUT,
    ...Array.from({ length: 5 }, (_, index) =>
      frame({ opcode: index === 0 ? BINARY : 0, payload: Buffer.alloc(100_000), fin: false }),
    ),
  ],
}

const REFUSED: Readonly<Record<string, readonly [status: number, lines: HandshakeLines]>> = {
  'no key of a socket': [400, { headers: { 'Sec-WebSocket-Key': null } }],
  'a key of a socket that is too short': [400, { headers: { 'Sec-WebSocket-Key': 'AAEC' } }],
  'a key of a socket that is no base64': [
    400,
    { headers: { 'Sec-WebSocket-Key': '????????????????????????' } },
  ],
  'no Upgrade': [400, { headers: { Upgrade: null } }],
  'another Upgrade': [400, { headers: { Upgrade: 'h2c' } }],
  'no Connection': [400, { headers: { Connection: null } }],
  'a Connection that keeps': [400, { headers: { Connection: 'keep-alive' } }],
  'an older version': [400, { headers: { 'Sec-WebSocket-Version': '8' } }],
  'a body': [400, { headers: { 'Content-Length': '4' }, after: 'body' }],
  'a chunked body': [400, { headers: { 'Transfer-Encoding': 'chunked' }, after: '0\r\n\r\n' }],
  'another method': [405, { method: 'POST', headers: { 'Content-Length': '0' } }],
  'no API key': [401, { headers: { Authorization: null } }],
  'a wrong API key': [401, { headers: { Authorization: 'Bearer lk_live_x' } }],
  'a field that is wrong': [400, { path: '/v1/transcription/stream?sample_rate=1' }],
  'a feature that no entry keeps': [422, { path: '/v1/transcription/stream?diarization=true' }],
  'a cap of its cost': [400, { path: '/v1/transcription/stream?max_cost_usd=1' }],
  'the choice of a model': [400, { path: '/v1/transcription/stream?model=x' }],
}

async function rigOf(t: Parameters<typeof openLive>[0]) {
  const provider = await serveWords(t)
  const { key } = principal()
  const caller = { key: { ...key, rateLimit: { requestsPerMinute: 1_000_000, burst: 1_000_000 } } }
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { caller })
  const port = Number(new URL(rig.origin).port)
  return { rig, port }
}

/** Everything behind the attack is as before it. */
async function isSound({ rig }: Awaited<ReturnType<typeof rigOf>>): Promise<boolean> {
  const caller = rig.connect()
  await caller.message('ready')
  caller.send(AUDIO)
  caller.send({ type: 'end' })
  await caller.message('done')
  return (await caller.closed) === 1000
}

/** A connection that is paused and not read ends by the native timer at last. */
function within(ended: Promise<RawEnd>, client: RawClient): Promise<RawEnd> {
  const timer = setTimeout(() => client.socket.destroy(), 20_000)
  return ended.finally(() => clearTimeout(timer))
}

test('a frame that breaks a rule ends its own session, with the right code', async (t) => {
  const at = await rigOf(t)
  for (const [name, [code, ...bytes]] of Object.entries(FRAMES)) {
    const client = new RawClient(at.port)
    client.socket.write(handshake(at.port, at.rig.authorization))
    t.equal(await client.opened(), 101, name)
    client.socket.write(Buffer.concat(bytes))
    const end = await within(client.ended, client)
    t.equal(end.code, code, `${name}: ${end.messages.at(-1)}`)
    if (name.includes('ping between')) t.equal(end.pongs, 1, 'it was answered')
  }
  t.ok(await isSound(at))
  t.equal(at.rig.live.count, 0)
  t.equal(at.rig.live.heldBytes, 0)
})

test('a handshake that is none is refused with an answer', async (t) => {
  const at = await rigOf(t)
  for (const [name, [status, lines]] of Object.entries(REFUSED)) {
    const client = new RawClient(at.port)
    client.socket.write(handshake(at.port, at.rig.authorization, lines))
    t.equal(await client.opened(), status, name)
    client.socket.destroy()
  }
  const inBand = new RawClient(at.port)
  const path = '/v1/transcription/stream?errors=in_band&diarization=true'
  inBand.socket.write(handshake(at.port, at.rig.authorization, { path }))
  t.equal(await inBand.opened(), 101)
  const { code, messages } = await inBand.ended
  t.equal(code, 4422)
  t.match(messages[0], /REQUIRED_FEATURE_UNAVAILABLE/)
  t.ok(await isSound(at))
})

test('a request behind a refused handshake is not taken for another one', async (t) => {
  const at = await rigOf(t)
  const client = new RawClient(at.port)
  const hidden = 'GET /v1/transcription/stream HTTP/1.1\r\nHost: hidden\r\n\r\n'
  const lines = { headers: { 'Content-Length': String(hidden.length), Connection: 'close' }, after: hidden }
  client.socket.write(handshake(at.port, at.rig.authorization, lines))
  await client.opened()
  const { messages } = await within(client.ended, client)
  t.same(messages, [])
  t.ok(await isSound(at))
})

test('a client that sends a byte a second, floods pings, or goes half away holds nothing up', async (t) => {
  const at = await rigOf(t)
  const slow = new RawClient(at.port)
  slow.socket.write(handshake(at.port, at.rig.authorization))
  await slow.opened()
  const dripping = setInterval(() => slow.socket.write(Buffer.from([0x82])), 1_000)
  const flood = new RawClient(at.port)
  flood.socket.write(handshake(at.port, at.rig.authorization))
  await flood.opened()
  const pings = Buffer.concat(Array.from({ length: 1_000 }, () => frame({ opcode: PING, payload: 'x' })))
  for (let round = 0; round < 50; round += 1) flood.socket.write(pings)
  const half = new RawClient(at.port)
  half.socket.write(handshake(at.port, at.rig.authorization))
  await half.opened()
  half.socket.end()
  t.ok(await isSound(at))
  clearInterval(dripping)
  flood.socket.write(END)
  const { code, pongs } = await flood.ended
  t.equal(code, 1000)
  t.equal(pongs, 50_000)
  await half.ended
  slow.socket.destroy()
  while (at.rig.live.count > 0) await sleep(20)
  t.equal(at.rig.live.heldBytes, 0)
})

test('a hundred thousand mutated frames end no process and hold no memory', async (t) => {
  const at = await rigOf(t)
  const dice = new Dice(23)
  const whole = [
    frame({ opcode: BINARY, payload: AUDIO.subarray(0, 640) }),
    text({ type: 'finalize', id: 'a' }),
    text({ type: 'keepalive' }),
    frame({ opcode: PING, payload: 'x' }),
    frame({ opcode: TEXT, payload: '{"type":"start","audio":{"sample_rate":8000}}' }),
  ]
  const before = process.memoryUsage().rss
  let sent = 0
  while (sent < 100_000) {
    const clients = Array.from({ length: 20 }, () => new RawClient(at.port))
    await Promise.all(
      clients.map(async (client) => {
        client.socket.write(handshake(at.port, at.rig.authorization))
        await client.opened()
        const burst: Buffer[] = []
        for (let count = 0; count < 100; count += 1) {
          const one = Buffer.from(dice.one(whole))
          // Most are whole, or the first one would end the connection.
          if (dice.chance(0.05)) one[dice.below(one.length)] = dice.below(256)
          burst.push(dice.chance(0.01) ? one.subarray(0, dice.below(one.length)) : one)
        }
        client.socket.end(Buffer.concat(burst))
        await within(client.ended, client)
      }),
    )
    sent += clients.length * 100
  }
  t.ok(await isSound(at))
  while (at.rig.live.count > 0) await sleep(20)
  t.equal(at.rig.live.heldBytes, 0)
  const grown = (process.memoryUsage().rss - before) / 1024 ** 2
  t.ok(grown < 200, `${Math.round(grown)} MiB more than before`)
})
