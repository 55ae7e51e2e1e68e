import { execFile, execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import {
  PLAIN_HEARING,
  PLAIN_SPEECH,
  type SpeechOptions,
  type TranscriptionOptions,
} from '../../../src/console/page/views/playground/options.ts'
import {
  chatSnippets,
  jsString,
  pythonString,
  shellWord,
  speechSnippets,
  transcriptionSnippets,
} from '../../../src/console/page/views/playground/snippets.ts'

import { startGateway } from '../../support/gateway.ts'

// Snippets are run as whoever copies them would run them.

const run = promisify(execFile)
const PACKAGES = fileURLToPath(new URL('../../../node_modules', import.meta.url))

/** Texts that would be something else if they were not quoted. */
const HOSTILE = [
  `'; touch pwned; echo '`,
  '$(touch pwned) `touch pwned` $LARKWAY_API_KEY',
  'a "b" \\ \\" \\n %s !! ~ # ; & | <in >out',
  'line one\nline two\r\n\tindented\u2028\u2029 ünï 🎙️',
  '@/etc/passwd',
  '</etc/passwd',
  'x;type=text/html',
  `\${process.exit(1)}`,
  '-F file=@/etc/passwd',
  '\'\'\'"""',
]

const has = (program: string, ...args: string[]) => {
  try {
    execFileSync(program, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
const noCurl = has('curl', '--version') ? false : 'curl is not installed'
const noPython = has('python3', '--version') ? false : 'python3 is not installed'
const noPythonClient = has('python3', '-c', 'import openai') ? false : 'the openai package is not installed'

interface Received {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

/** Takes any request down and answers it with a transcript. */
async function receiver(t: Test) {
  const received: Received[] = []
  const server = createServer(async (request, reply) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    received.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks) })
    reply.setHeader('content-type', 'application/json').end('{"text":"heard"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  return { origin: `http://127.0.0.1:${port}`, received }
}

const partsOf = async ({ headers, body }: Received) => {
  const form = await new Response(new Uint8Array(body), {
    headers: { 'content-type': headers['content-type'] ?? '' },
  }).formData()
  return [...form].map(([name, value]) => [name, typeof value === 'string' ? value : `file ${value.name}`])
}

const folder = (t: Test) => t.testdir({ node_modules: t.fixture('symlink', PACKAGES) })
const environment = (key: string) => ({ PATH: process.env.PATH ?? '', LARKWAY_API_KEY: key })

t.test('a text stays the text that it is', async (t) => {
  const cwd = folder(t)
  for (const text of HOSTILE) {
    t.equal(
      await import(`data:text/javascript,export const text = ${encodeURIComponent(jsString(text))}`).then(
        (module: { text: string }) => module.text,
      ),
      text,
    )
    const { stdout } = await run('sh', ['-c', `printf %s ${shellWord(text)}`], { cwd })
    t.equal(stdout, text, 'shell')
    if (noPython) continue
    const program = `import sys; sys.stdout.buffer.write(${pythonString(text)}.encode())`
    await writeFile(`${cwd}/text.py`, program)
    t.equal((await run('python3', ['text.py'], { cwd })).stdout, text, 'Python')
  }
})

t.test('curl sends what the form holds, whatever it holds', { skip: noCurl }, async (t) => {
  const { origin, received } = await receiver(t)
  const cwd = folder(t)
  const name = `it's; a, "b" $(x)\\.wav`
  await writeFile(`${cwd}/${name}`, 'RIFF')
  const options: TranscriptionOptions = {
    ...PLAIN_HEARING,
    language: 'en',
    responseFormat: 'verbose_json',
    timestamps: 'both',
    diarization: true,
    keyterms: 'one;two\n@three, <four\n$(five)',
    redaction: ['pii', 'pci'],
    purpose: "it's",
    profile: 'fast',
  }
  const { curl } = transcriptionSnippets(origin, name, options)
  await run('sh', ['-c', curl], { cwd, env: environment('lk_live_1') })
  const [request] = received
  t.equal(request?.path, '/v1/transcription')
  t.equal(request?.headers.authorization, 'Bearer lk_live_1')
  t.same(await partsOf(request!), [
    ['file', `file ${name}`],
    ['language', 'en'],
    ['response_format', 'verbose_json'],
    ['timestamps', 'both'],
    ['diarization', 'true'],
    ['purpose', "it's"],
    ['response_profile', 'fast'],
    ['keyterms[]', 'one;two'],
    ['keyterms[]', '@three'],
    ['keyterms[]', '<four'],
    ['keyterms[]', '$(five)'],
    ['redaction[]', 'pii'],
    ['redaction[]', 'pci'],
  ])
  for (const input of HOSTILE) {
    received.length = 0
    const snippets = speechSnippets(origin, { ...PLAIN_SPEECH, input, voice: input }, 'wav')
    await run('sh', ['-c', snippets.curl], { cwd, env: environment('lk_live_1') })
    t.same(JSON.parse(received[0]?.body.toString() ?? ''), { input, voice: input.trim() })
  }
  t.notOk(has('test', '-e', `${cwd}/pwned`))
})

t.test("OpenAI's client for JavaScript sends it, too", async (t) => {
  const { origin, received } = await receiver(t)
  const cwd = folder(t)
  await writeFile(`${cwd}/it's.wav`, 'RIFF')
  const options: TranscriptionOptions = {
    ...PLAIN_HEARING,
    language: 'de',
    timestamps: 'word',
    keyterms: "Größe, it's",
    redaction: ['numbers'],
    purpose: 'support',
    profile: 'thinking',
  }
  const { javascript } = transcriptionSnippets(origin, "it's.wav", options)
  await writeFile(`${cwd}/hear.mjs`, javascript ?? '')
  const { stdout } = await run(process.execPath, ['hear.mjs'], { cwd, env: environment('lk_live_2') })
  t.equal(stdout, 'heard\n')
  const parts = await partsOf(received[0]!)
  t.same(parts.sort(), [
    ['file', "file it's.wav"],
    ['keyterms[]', 'Größe'],
    ['keyterms[]', "it's"],
    ['language', 'de'],
    ['model', 'support'],
    ['redaction[]', 'numbers'],
    ['response_format', 'verbose_json'],
    ['response_profile', 'thinking'],
    ['timestamp_granularities[]', 'word'],
  ])
  t.equal(received[0]?.path, '/openai/v1/audio/transcriptions')
})

t.test('the programs in Python are programs', { skip: noPython }, async (t) => {
  const cwd = folder(t)
  const options: TranscriptionOptions = {
    ...PLAIN_HEARING,
    diarization: true,
    keyterms: HOSTILE.join('\n'),
    redaction: ['pii'],
    timestamps: 'both',
  }
  const speech: SpeechOptions = { ...PLAIN_SPEECH, input: HOSTILE.join('\n'), speed: '1.25', profile: 'fast' }
  for (const { python } of [
    transcriptionSnippets('https://gateway.example.com', HOSTILE[3]!, options),
    transcriptionSnippets('https://gateway.example.com', 'a.wav', PLAIN_HEARING),
    speechSnippets('https://gateway.example.com', speech, 'mp3'),
  ]) {
    await writeFile(`${cwd}/program.py`, python ?? '')
    await run('python3', ['-m', 'py_compile', 'program.py'], { cwd })
  }
  t.match(
    speechSnippets('https://g.example', speech, 'mp3').python,
    'extra_body={"response_profile": "fast"}',
  )
  t.match(speechSnippets('https://g.example', speech, 'mp3').python, 'voice=None')
})

t.test('a job is handed in and followed by programs', { skip: noCurl }, async (t) => {
  const { url, key } = await startGateway(t)
  const cwd = folder(t)
  const env = environment(key)
  const spoken = speechSnippets(url, { ...PLAIN_SPEECH, input: 'hello world', responseFormat: 'wav' }, 'wav')
  await run('sh', ['-c', spoken.curl], { cwd, env })
  const refused = speechSnippets(url, { ...PLAIN_SPEECH, input: 'hello', responseFormat: 'flac' }, 'flac')
  await t.rejects(run('sh', ['-c', refused.curl], { cwd, env }), { code: 22 }, 'an error is no audio')
  const job = transcriptionSnippets(url, 'speech.wav', { ...PLAIN_HEARING, timestamps: 'word', asJob: true })
  await writeFile(`${cwd}/job.mjs`, job.javascript)
  t.equal((await run(process.execPath, ['job.mjs'], { cwd, env })).stdout, 'hello world\n')
  if (noPython || !has('python3', '-c', 'import requests')) return
  await writeFile(`${cwd}/job.py`, job.python)
  t.equal((await run('python3', ['job.py'], { cwd, env })).stdout, 'hello world\n')
})

t.test('a gateway understands them', { skip: noCurl }, async (t) => {
  const { url, key } = await startGateway(t)
  const cwd = folder(t)
  const env = environment(key)
  const spoken = speechSnippets(url, { ...PLAIN_SPEECH, input: 'hello world' }, 'wav')
  const heard = transcriptionSnippets(url, 'speech.wav', { ...PLAIN_HEARING, responseFormat: 'verbose_json' })
  await run('sh', ['-c', spoken.curl], { cwd, env })
  const { stdout } = await run('sh', ['-c', heard.curl], { cwd, env })
  const answer = JSON.parse(stdout) as { content: string; warnings: string[] }
  t.equal(answer.content, 'hello world')
  t.same(answer.warnings, [])
  await writeFile(`${cwd}/speak.mjs`, spoken.javascript ?? '')
  await writeFile(`${cwd}/hear.mjs`, heard.javascript ?? '')
  await run('rm', ['speech.wav'], { cwd })
  await run(process.execPath, ['speak.mjs'], { cwd, env })
  t.equal((await run(process.execPath, ['hear.mjs'], { cwd, env })).stdout, 'hello world\n')
  const { python } = heard
  if (noPythonClient) return
  await writeFile(`${cwd}/hear.py`, python)
  t.equal((await run('python3', ['hear.py'], { cwd, env })).stdout, 'hello world\n')
})

t.test('a chat is streamed by each of them', { skip: noCurl }, async (t) => {
  const { url, key } = await startGateway(t)
  const cwd = folder(t)
  const env = environment(key)
  const options = {
    system: HOSTILE.join(' '),
    user: 'hello $(touch pwned) `x`',
    temperature: '0.5',
    maxTokens: '64',
  }
  const { curl, javascript, python } = chatSnippets(url, options, { purpose: '', profile: 'fast' })
  const morse = '.... . .-.. .-.. ---'
  const { stdout } = await run('sh', ['-c', curl], { cwd, env })
  t.match(stdout, /^data: \{"type":"delta"/)
  t.match(stdout, /"type":"done".*\n\ndata: \[DONE\]\n\n$/)
  await writeFile(`${cwd}/chat.mjs`, javascript)
  t.ok((await run(process.execPath, ['chat.mjs'], { cwd, env })).stdout.startsWith(morse))
  t.notOk(has('test', '-e', `${cwd}/pwned`))
  if (noPython) return
  await writeFile(`${cwd}/chat.py`, python)
  await run('python3', ['-m', 'py_compile', 'chat.py'], { cwd })
  if (noPythonClient) return
  t.ok((await run('python3', ['chat.py'], { cwd, env })).stdout.startsWith(morse))
})
