import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { runCommand } from '../../src/cli/commands.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { childEnvironment } from '../support/child-environment.ts'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { Dice } from '../support/dice.ts'
import { startGateway } from '../support/gateway.ts'
import { programOf } from '../support/program.ts'
import { answer, answerTranscript, type HeardRequest } from '../support/slow-ear.ts'
import { heardOf, MIB, noisyWav, uploadRoute } from '../support/uploads.ts'

const WAV = speak('it is me', 600, 1)
const SRT = /^1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\nit is me\n$/

interface Given {
  readonly input?: Buffer
  readonly env?: Record<string, string>
}

/** Runs the command with a home of its own. */
async function run(home: string, args: readonly string[], { input, env = {} }: Given = {}) {
  const [output, drawn, errors]: [string[], string[], string[]] = [[], [], []]
  const code = await runCommand(['transcribe', ...args], {
    env: { HOME: home, ...env },
    ...(input === undefined ? {} : { input: Readable.from([input]) }),
    print: (text) => void output.push(text),
    draw: (text) => void drawn.push(text),
    complain: (sentence) => void errors.push(sentence),
  })
  return { code, output: output.join(''), drawn: drawn.join(''), errors }
}

const keptIn = async (home: string) =>
  JSON.parse(await readFile(join(home, '.local/state/larkway/uploads.json'), 'utf8')) as Record<
    string,
    string
  >

async function recordings(t: Test) {
  const home = t.testdir()
  const folder = join(home, 'meetings')
  await mkdir(folder)
  const file = join(folder, 'b.wav')
  await writeFile(file, WAV)
  return { home, folder, file }
}

t.test('a file is transcribed, in every format, and nothing is left of it at the node', async (t) => {
  const { url, key, dataFolder } = await startGateway(t)
  const { home, file } = await recordings(t)
  const at = ['--url', url, '--key', key]
  t.match(await run(home, [file, ...at]), { code: 0, output: 'it is me\n', errors: [] })
  t.match(await run(home, [file, '--out', 'srt', ...at]), { code: 0, output: SRT })
  t.match(await run(home, [file, '--out', 'vtt', ...at]), { code: 0, output: /^WEBVTT\n/ })
  const { output, drawn } = await run(home, [file, '--out', 'json', '--field', 'timestamps=word', ...at])
  t.match(JSON.parse(output), {
    content: 'it is me',
    words: [{ word: 'it' }, { word: 'is' }, { word: 'me' }],
  })
  t.match(drawn, /b\.wav: 100 % of/, 'a terminal is shown how far it is')
  t.same(await keptIn(home), {}, 'nothing is to be gone on with')
  t.same(await readdir(join(dataFolder, 'resumable')), [], 'the uploads are deleted')
})

t.test(
  'of a folder each transcript stands beside its file, and of standard input it is printed',
  async (t) => {
    const { url, key } = await startGateway(t)
    const { home, folder, file } = await recordings(t)
    for (const name of ['a.wav', 'b.oga']) await copyFile(file, join(folder, name))
    const isOther = join(folder, 'a.srt')
    await writeFile(isOther, 'written by hand')
    const at = ['--url', url, '--key', key]
    const written = await run(home, [folder, '--out', 'srt', ...at])
    const made = ['b.oga.srt', 'b.wav.srt'].map((name) => join(folder, name))
    t.match(written, { code: 0, output: `${[`${isOther} exists`, ...made].join('\n')}\n` })
    for (const path of made) t.match(await readFile(path, 'utf8'), SRT, 'no two of one name')
    t.equal(await readFile(isOther, 'utf8'), 'written by hand', 'what exists is kept')
    t.match(await run(home, ['-', ...at], { input: WAV }), { code: 0, output: 'it is me\n' })
    const env = { LARKWAY_API_KEY: key, PORT: new URL(url).port }
    t.match(await run(home, [file], { env }), { code: 0, output: 'it is me\n' }, 'by the environment')
  },
)

t.test('connections that break are gone on with, and a failure says why', async (t) => {
  const { authorization, start } = await uploadRoute(t)
  const { url, port } = await start()
  const key = authorization.authorization.slice('Bearer '.length)
  const home = t.testdir()
  const file = join(home, 'long.wav')
  const bytes = noisyWav(12 * MIB)
  await writeFile(file, bytes)
  await mkdir(join(home, 'empty'))
  const dice = new Dice(5)
  const proxy = await cuttingProxy(t, port, () => 2_000 + dice.below(3 * MIB))
  const cut = await run(home, [file, '--url', proxy.url, '--key', key])
  t.match(cut, { code: 0, output: `${heardOf(bytes)}\n` })
  t.ok(proxy.cuts > 3, `${proxy.cuts} cuts`)
  const refusals: Record<string, [args: string[], code: number, error: RegExp]> = {
    'a wrong key': [[file, '--url', url, '--key', 'lk_no'], 1, /API key is missing.* \(UNAUTHENTICATED\)/],
    'no file': [[join(home, 'none.wav'), '--url', url], 1, /cannot read .*none\.wav/],
    'a folder without audio': [[join(home, 'empty'), '--url', url], 1, /there is no audio/],
    'no argument': [[], 2, /takes files/],
    'another format': [[file, '--out', 'pdf'], 2, /--out must be one of text, srt, vtt, json/],
    'a field that is none': [
      [file, '--url', url, '--key', key, '--field', 'seed=x'],
      1,
      /`seed`.*INVALID_REQUEST/,
    ],
  }
  for (const [name, [args, code, error]] of Object.entries(refusals)) {
    const { code: ended, errors } = await run(home, args)
    t.equal(ended, code, name)
    t.match(errors.join(' '), error, name)
  }
})

t.test('after a job that failed, the same command has the same upload transcribed', async (t) => {
  const refusal = { err_code: 'Bad Request', err_msg: 'corrupt or unsupported data', request_id: 'one' }
  let requests = 0
  const onWhole = (request: HeardRequest) => {
    requests += 1
    if (requests <= 2) answer(request, 400, refusal)
    else answerTranscript(request)
  }
  const { authorization, start } = await uploadRoute(t, { onWhole })
  const { url } = await start()
  const { home, file } = await recordings(t)
  const again = () => run(home, [file, '--url', url, '--key', authorization.authorization.slice(7)])
  for (const count of [1, 2]) {
    t.match(await again(), { code: 1, errors: [/refused this input/] })
    t.equal(requests, count)
  }
  const [upload] = Object.values(await keptIn(home))
  t.ok(upload, 'the upload is kept')
  t.match(await again(), { code: 0, output: `${heardOf(WAV)}\n` })
  t.equal(requests, 3)
  t.same(await keptIn(home), {})
})

t.test('a command that is interrupted goes on with the next', async (t) => {
  const { authorization, start } = await uploadRoute(t)
  const { port } = await start()
  const key = authorization.authorization.slice('Bearer '.length)
  const home = t.testdir()
  const file = join(home, 'long.wav')
  const bytes = noisyWav(24 * MIB)
  await writeFile(file, bytes)
  const { args, env } = await programOf('cli.ts')
  let sent = 0
  const passed = Promise.withResolvers<void>()
  const proxy = await cuttingProxy(
    t,
    port,
    () => null,
    (count) => {
      sent += count
      if (sent > 12 * MIB) passed.resolve()
    },
  )
  const command = [...args, 'transcribe', file, '--url', proxy.url, '--key', key]
  const begin = () =>
    spawn(process.execPath, command, {
      env: childEnvironment({ ...env, HOME: home }),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
  const first = begin()
  await passed.promise
  first.kill('SIGINT')
  await once(first, 'exit')
  t.equal(Object.keys(await keptIn(home)).length, 1)
  const before = sent
  const second = begin()
  let output = ''
  second.stdout.on('data', (chunk) => {
    output += chunk
  })
  const [code] = (await once(second, 'close')) as [number]
  t.equal(code, 0)
  t.equal(output, `${heardOf(bytes)}\n`)
  t.ok(sent - before < bytes.length - MIB, `${sent - before} bytes were sent again or anew`)
  t.same(await keptIn(home), {})
})
