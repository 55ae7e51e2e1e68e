import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { type WebSocket, WebSocketServer } from 'ws'
import { runCommand } from '../../src/cli/commands.ts'
import { writeWav } from '../../src/sandbox/wav.ts'

const SEGMENT = { id: 0, start: 0, end: 1, text: 'hello world' }
const FINAL = { type: 'final', seq: 2, channel: 0, segment: SEGMENT, settled_seconds: 1 }
const DONE = { type: 'done', status: 'succeeded' }

interface Script {
  /** What is said once the audio has come and `end` behind it. */
  readonly atEnd?: readonly object[]
  readonly atOpen?: readonly object[]
  /** Close after `atOpen`. */
  readonly close?: readonly [code: number, reason: string]
}

interface Node {
  readonly url: string
  readonly requests: IncomingMessage[]
  readonly audio: Buffer[]
  /** When each frame came, ms. */
  readonly times: number[]
  readonly texts: string[]
}

/** A node that says what a test has it say. */
async function startNode(t: Test, { atOpen = [], atEnd = [FINAL, DONE], close }: Script = {}): Promise<Node> {
  const server = createServer()
  const sockets = new WebSocketServer({
    server,
    path: '/v1/transcription/stream',
    handleProtocols: () => 'larkway.v1',
  })
  const node: Node = { url: await listening(t, server), requests: [], audio: [], times: [], texts: [] }
  sockets.on('connection', (socket: WebSocket, request) => {
    node.requests.push(request)
    const say = (messages: readonly object[]) => {
      for (const message of messages) socket.send(JSON.stringify(message))
    }
    socket.on('message', (data, isBinary) => {
      if (isBinary) {
        node.times.push(performance.now())
        return void node.audio.push(data as Buffer)
      }
      node.texts.push(data.toString())
      say(atEnd)
      socket.close(1000)
    })
    say(atOpen)
    if (close !== undefined) socket.close(...close)
  })
  t.teardown(() => {
    for (const socket of sockets.clients) socket.terminate()
    server.close()
  })
  return node
}

async function listening(t: Test, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.closeAllConnections())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface Given {
  readonly input?: readonly Buffer[]
  readonly columns?: number
  readonly env?: Record<string, string>
}

async function run(args: readonly string[], { input = [], columns, env = {} }: Given = {}) {
  const [output, errors]: [string[], string[]] = [[], []]
  const code = await runCommand(['listen', ...args], {
    env,
    columns,
    input: Readable.from(input),
    print: (text) => void output.push(text),
    complain: (sentence) => void errors.push(sentence),
  })
  return { code, output: output.join(''), errors }
}

const ramp = (samples: number) => Int16Array.from({ length: samples }, (_, at) => at)
const bytesOf = (samples: Int16Array) => Buffer.from(samples.buffer)

t.test('a wav file at real time, to its last sample', async (t) => {
  const node = await startNode(t)
  const samples = ramp(8000)
  const file = join(t.testdir(), 'a.wav')
  // A list behind the samples is no audio.
  await writeFile(file, Buffer.concat([writeWav(samples, 8000), Buffer.from('LIST\x04\0\0\0abcd', 'latin1')]))
  const startedMs = performance.now()
  const { code, output, errors } = await run([file, '--url', node.url, '--key', 'lk_a', '--language', 'en'])
  const elapsedMs = performance.now() - startedMs
  t.match({ code, output, errors }, { code: 0, output: 'hello world\n', errors: [] })
  t.ok(elapsedMs > 950, `a second of audio took ${elapsedMs} ms`)
  t.ok(Buffer.concat(node.audio).equals(bytesOf(samples)))
  t.ok(node.audio.length === 10 && node.audio.every(({ length }) => length === 1600), 'in frames of 100 ms')
  t.same(node.texts, ['{"type":"end"}'])
  const [request] = node.requests
  const query = new URL(request?.url ?? '', node.url).searchParams
  t.same(Object.fromEntries(query), {
    language: 'en',
    encoding: 'pcm_s16le',
    sample_rate: '8000',
    channels: '1',
  })
  t.match(request?.headers, { authorization: 'Bearer lk_a', 'sec-websocket-protocol': 'larkway.v1' })
})

t.test('raw samples and wav from standard input, as fast as a provider takes them', async (t) => {
  const node = await startNode(t)
  const samples = ramp(16_000 * 3)
  const bytes = bytesOf(samples)
  const pieces = Array.from({ length: Math.ceil(bytes.length / 777) }, (_, at) =>
    bytes.subarray(at * 777, (at + 1) * 777),
  )
  const raw = [
    ...['--rate', '16000', '--field', 'diarization=true', '--field', 'keyterms=a', '--field', 'keyterms=b=c'],
  ]
  const startedMs = performance.now()
  const first = await run(['-', '--url', `${node.url}/`, '--fast', ...raw], {
    input: pieces,
    env: { LARKWAY_API_KEY: 'lk_b' },
  })
  t.match(first, { code: 0, output: 'hello world\n' })
  t.ok(performance.now() - startedMs < 2000, 'three seconds at once')
  t.ok(Buffer.concat(node.audio).equals(bytes))
  const [request] = node.requests
  const query = new URL(request?.url ?? '', node.url).searchParams
  t.same(query.getAll('keyterms'), ['a', 'b=c'])
  t.equal(query.get('diarization'), 'true')
  t.equal(request?.headers.authorization, 'Bearer lk_b')

  node.audio.length = 0
  const wav = writeWav(ramp(16_000), 16_000)
  // A program that writes into a pipe does not know the length.
  wav.writeUInt32LE(0xffff_ffff, 40)
  const pipe = Array.from({ length: Math.ceil(wav.length / 7) }, (_, at) =>
    wav.subarray(at * 7, (at + 1) * 7),
  )
  t.match(await run(['-', '--url', node.url, '--fast'], { input: pipe }), { code: 0 })
  t.ok(Buffer.concat(node.audio).equals(bytesOf(ramp(16_000))))

  node.audio.length = 0
  t.match(await run(['-', '--url', node.url, '--fast'], { input: [bytes.subarray(0, 999)] }), { code: 0 })
  t.equal(Buffer.concat(node.audio).length, 998, 'half a sample is not sent')
})

t.test(
  'fast is no faster than a provider takes: ten seconds at once, then 1.25 times real time',
  async (t) => {
    const node = await startNode(t)
    const input = [Buffer.alloc(8000 * 2 * 11)]
    // Not from the first frame, which may be read late: then the last ones seem to be sent sooner.
    const startedMs = performance.now()
    await run(['-', '--url', node.url, '--fast', '--rate', '8000'], { input })
    const elapsedMs = node.times.at(-1)! - startedMs
    t.ok(elapsedMs > 750, `the eleventh second took ${elapsedMs} ms`)
  },
)

t.test('a terminal: unfinished text is rewritten in place', async (t) => {
  const partial = (text: string) => ({ type: 'partial', seq: 1, channel: 0, start: 0, text })
  const final = (text: string, more: object = {}) => ({ ...FINAL, segment: { ...SEGMENT, text, ...more } })
  const messages = [partial('he'), partial('hello'), final('hello'), partial('wor'), final('world')]
  const node = await startNode(t, {
    atEnd: [...messages, { type: 'utterance_end', channel: 0, at_seconds: 1 }, final('again'), DONE],
  })
  const { output } = await run(['-', '--url', node.url], { input: [Buffer.alloc(3200)], columns: 80 })
  const clear = '\r\u001b[K'
  t.equal(
    output,
    [
      `${clear}he${clear}hello${clear}hello${clear}hello wor${clear}hello world`,
      `${clear}hello world\n`,
      `${clear}again${clear}again\n`,
    ].join(''),
  )
  const narrow = await startNode(t, {
    atEnd: [final('one two three four'), partial('x'.repeat(30)), final('five'), DONE],
  })
  const shown = await run(['-', '--url', narrow.url], { input: [Buffer.alloc(3200)], columns: 20 })
  const lines = shown.output.replaceAll('\u001b[K', '').split(/[\r\n]+/)
  t.ok(
    lines.every(({ length }) => length < 20),
    'no line is longer than the terminal',
  )
  t.match(shown.output, /one two three four\n.*five\n$/s)
})

t.test('speakers, JSON, and what happens on the way', async (t) => {
  const entry = (provider: string) => ({ provider, model: 'm' })
  const switched = {
    type: 'switched',
    from: entry('a'),
    to: entry('b'),
    replayed_seconds: 1.5,
    lost_seconds: 0,
  }
  const spoken = { ...FINAL, segment: { ...SEGMENT, speaker: 'speaker_0' } }
  const atEnd = [switched, { type: 'going_away', seconds: 9, reason: 'drain' }, spoken, DONE]
  const node = await startNode(t, { atEnd })
  const input = [Buffer.alloc(3200)]
  const { output, errors } = await run(['-', '--url', node.url], { input })
  t.equal(output, 'speaker_0: hello world\n')
  t.match(errors, [
    /^a m failed; b m goes on \(1\.5 s again, 0 s lost\)/,
    /ends this session in 9 s \(drain\)/,
  ])
  const json = await run(['-', '--url', node.url, '--json'], { input })
  t.same(
    json.output
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
    atEnd,
  )
})

t.test('failures: exit code 1 and a sentence', async (t) => {
  const input = [Buffer.alloc(3200)]
  const error = { code: 'INSUFFICIENT_CREDITS', message: 'there are no credits left' }
  const broke = await startNode(t, { atOpen: [{ type: 'error', error }], close: [4402, ''] })
  t.match(await run(['-', '--url', broke.url], { input }), {
    code: 1,
    errors: ['there are no credits left (INSUFFICIENT_CREDITS)'],
  })
  const cut = await startNode(t, { close: [1001, ''] })
  t.match(await run(['-', '--url', cut.url], { input }), {
    code: 1,
    errors: [/closed before its end \(1001\)/],
  })
  const early = await startNode(t, { atEnd: [FINAL] })
  t.match(await run(['-', '--url', early.url], { input }), {
    code: 1,
    output: 'hello world\n',
    errors: [/\(1000\)/],
  })

  const server = createServer((request, response) => response.end(request.url))
  server.on('upgrade', (_, socket) => {
    const body = JSON.stringify({ error: { code: 'INVALID_API_KEY', message: 'the key is not valid' } })
    socket.end(`HTTP/1.1 401 Unauthorized\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  })
  const refusing = await listening(t, server)
  t.match(await run(['-', '--url', refusing], { input }), {
    code: 1,
    errors: ['the key is not valid (INVALID_API_KEY)'],
  })
  server.close()
  t.match(await run(['-', '--url', 'http://127.0.0.1:1'], { input }), {
    code: 1,
    errors: [/cannot reach ws:\/\/127.0.0.1:1.*ECONNREFUSED/],
  })

  const node = await startNode(t)
  t.match(await run(['none.wav', '--url', node.url]), { code: 1, errors: [/cannot read the input: ENOENT/] })
  t.match(await run(['-', '--url', node.url]), { code: 1, errors: [/ends before any audio/] })
  const files: [Buffer, RegExp][] = [
    [Buffer.from('fLaC0000'), /wav files and raw samples/],
    [Buffer.from('ID3\x040000'), /wav files and raw samples/],
    [float(), /other samples/],
  ]
  for (const [bytes, sentence] of files)
    t.match(await run(['-', '--url', node.url], { input: [bytes] }), { code: 1, errors: [sentence] })
  t.equal(node.requests.length, 0, 'no session was opened for them')
})

function float(): Buffer {
  const wav = writeWav(ramp(8), 8000)
  wav.writeUInt16LE(3, 20)
  return wav
}

t.test('the command line: exit code 2', async (t) => {
  for (const args of [
    [],
    ['a', 'b'],
    ['-', '--rate', 'x'],
    ['-', '--encoding', 'opus'],
    ['-', '--url', 'x'],
    ['-', '--field', 'x'],
  ])
    t.match(await run(args), { code: 2, errors: [/./] }, args.join(' '))
  t.match(await run(['--help']), { code: 0, output: /^larkway listen FILE/ })
})
