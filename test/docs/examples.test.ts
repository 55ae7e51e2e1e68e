import { execFile, execFileSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { childEnvironment } from '../support/child-environment.ts'
import { startGateway } from '../support/gateway.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { type Block, blocksOf, MANUAL, section } from '../support/manual.ts'
import { programOf } from '../support/program.ts'
import { overTls, PREPARATIONS } from './prepared.ts'

// Every block of code in the manual is run, and what comes back is compared with what the page says. A block that
// cannot be run has a comment above it, `<!-- not run: the reason -->`, and is counted.

const NOT_RUN = 15

const ORIGIN = 'http://localhost:8080'
const METRICS = 'http://localhost:9464'
const PACKAGES = fileURLToPath(new URL('../../node_modules', import.meta.url))
const run = promisify(execFile)

interface Step {
  readonly command: string
  /** Empty where the page shows none. */
  readonly output: string
}

/** A command goes on where its line ends with a backslash; what follows, up to the next one, is its output. */
function stepsOf(block: string): Step[] {
  return [...block.matchAll(/^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)/gm)].map(
    ([, command = '', output = '']) => ({ command: command.replace(/ +# [^'"]*$/, ''), output }),
  )
}

/** `…` stands for anything; identifiers and times are others each time. */
function expected(output: string): RegExp {
  const source = output
    .trim()
    .replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('…', '[^]*?')
    .replaceAll(/^ok +/gm, 'ok +') // as wide as the worst grade that this machine gets
    .replaceAll(/\b(req|tj|qj|evt|key|grant)_[0-9a-z]{26}\b/g, '$1_[0-9a-z]{26}')
    .replaceAll(
      /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\\\.\d{3}Z/g,
      '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z',
    )
  return new RegExp(`^${source}$`)
}

/** Null where it is not installed. */
function versionOf(program: string, ...args: string[]): string | null {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return null
  }
}

const HAS_CURL = versionOf('curl', '--version') !== null
const HAS_PYTHON = versionOf('python3', '-c', 'import openai') !== null

/** Runs the examples of one page: a folder of its own, and the server that they talk to. */
interface Shell {
  readonly cwd: string
  env: Readonly<Record<string, string>>
  /** The server of `npm start`, changed by a block that starts another. */
  server: { readonly url: string; readonly metricsUrl: string; readonly tlsPort?: unknown }
  /** The last identifier of each kind that an answer had: `tj` → `tj_01…`. */
  readonly ids: Map<string, string>
}

const demo = await startGateway(t)
const folder = t.testdir({
  bin: {},
  secrets: { eleven: 'sk-2', 'larkway-alerts': `whsec_${Buffer.alloc(32).toString('base64')}` },
})
// `npx larkway` of a clone, without the search for a Node that fits.
const program = await programOf('cli.ts')
const settings = Object.entries(program.env).map(([name, value]) => `${name}='${value}'`)
const command = [process.execPath, ...program.args].map((part) => `'${part}'`)
writeFileSync(
  join(folder, 'bin', 'npx'),
  `#!/bin/sh\nshift\n${settings.join(' ')} exec ${command.join(' ')} "$@"\n`,
)
chmodSync(join(folder, 'bin', 'npx'), 0o755)

function openShell(page: string): Shell {
  const cwd = join(folder, basename(page, '.md'))
  mkdirSync(join(cwd, 'data'), { recursive: true })
  // What the README has spoken is listened to everywhere.
  const spoken = join(folder, 'README', 'hello.wav')
  if (cwd !== join(folder, 'README') && existsSync(spoken)) copyFileSync(spoken, join(cwd, 'hello.wav'))
  const env = childEnvironment({
    PATH: `${join(folder, 'bin')}:${process.env.PATH ?? ''}`,
    HOME: cwd,
    KEY: demo.key,
    LARKWAY_DATA: join(cwd, 'data'),
    OPENAI_API_KEY: 'sk-1',
    DEEPGRAM_API_KEY: 'sk-3',
    OIDC_CLIENT_SECRET: 'sk-4',
  })
  return { cwd, env, server: { url: demo.url, metricsUrl: METRICS }, ids: new Map() }
}

function here(text: string, { server, ids }: Shell): string {
  return overTls(text, server.tlsPort)
    .replaceAll(ORIGIN, server.url)
    .replaceAll(METRICS, server.metricsUrl)
    .replaceAll('lk_live_…', demo.key)
    .replaceAll(/\b(tj|key|upl)_…/g, (word, kind: string) => ids.get(kind) ?? word)
}

async function runConsole(t: Test, { text }: Block, shell: Shell): Promise<void> {
  const steps = stepsOf(text)
  t.ok(steps.length > 0, 'it has commands')
  const { cwd, env } = shell
  for (const [command, prepare] of Object.entries(PREPARATIONS))
    if (text.includes(command)) shell.env = { ...env, ...(await prepare(t, cwd, env.LARKWAY_DATA!)) }
  for (const { command, output } of steps) {
    const start = /^((?:[A-Z_]+=\S+ )*)npm start$/.exec(command)
    if (start) {
      const server = await startAs(t, start[1] ?? '', cwd)
      const { metrics_port: metricsPort, tls_port: tlsPort } = server.log.at(-1) ?? {}
      shell.server = { url: server.url, metricsUrl: `http://127.0.0.1:${metricsPort}`, tlsPort }
      continue
    }
    const typed = here(command, shell)
    t.notMatch(typed, '…', 'it can be typed in as it is')
    const { stdout } = await run('bash', ['-c', `set -o pipefail; ${typed}`], shell)
    const written = stdout.replaceAll('\r', '')
    for (const [id, kind = ''] of written.matchAll(/\b(tj|key|upl)_[0-9a-z]{26}\b/g)) shell.ids.set(kind, id)
    t.match(written.trim(), expected(output === '' ? '…' : output), command.split('\n')[0] ?? '')
  }
}

/** Starts a server with the variables of a command line; ports are any free ones. */
function startAs(t: Test, variables: string, cwd: string): Promise<Larkway> {
  const env = Object.fromEntries(
    variables
      .trim()
      .split(' ')
      .filter(Boolean)
      .map((one) => one.split('=', 2) as [string, string])
      .map(([name, value]) => [name, name.endsWith('PORT') ? '0' : value])
      .map(([name, value]) => [name, value?.endsWith('.pem') ? join(cwd, value) : value]),
  )
  const ports = 'LARKWAY_TLS_CERT' in env ? { LARKWAY_TLS_PORT: '0' } : {}
  return startLarkway(t, { env: { ...ports, ...env }, key: demo.key })
}

/** What a program says that it prints: the comments behind its lines that print. */
const printsOf = (program: string) =>
  [...program.matchAll(/^\s*(?:console\.log|print|process\.stdout\.write)\(.*\) +(?:\/\/|#) (.*)$/gm)].map(
    ([, text]) => text,
  )

/** A program that uses a client library, pointed at the server of this test. */
async function runProgram(t: Test, block: Block, shell: Shell): Promise<void> {
  const [file, program] =
    block.language === 'js' ? ['example.mjs', process.execPath] : ['example.py', 'python3']
  t.match(block.text, ORIGIN, 'it talks to the server')
  t.ok(printsOf(block.text).length > 0, 'it says what it prints')
  writeFileSync(join(shell.cwd, file), here(block.text, shell))
  const { stdout } = await run(program, [file], shell)
  t.same(stdout.trim().split('\n'), printsOf(block.text))
}

/** A configuration that `larkway check` accepts; commands that follow it on the page use it. */
async function runYaml(t: Test, { text }: Block, { cwd, env }: Shell): Promise<void> {
  const complete = text
    .replaceAll(/sha256: "…"/g, `sha256: "${'0'.repeat(64)}"`)
    .replaceAll('/run/secrets/', `${join(folder, 'secrets')}/`)
  writeFileSync(join(cwd, 'larkway.yaml'), complete)
  const { stdout } = await run(join(folder, 'bin', 'npx'), ['larkway', 'check'], { cwd, env })
  t.match(stdout, 'larkway.yaml')
}

/** A line of the log: every field is one that the logger knows, and every field of a real line is explained. */
async function runLogLine(t: Test, { text }: Block): Promise<void> {
  const source = readFileSync(new URL('../../src/contracts/log.ts', import.meta.url), 'utf8')
  const [, fields = ''] = /export interface LogFields \{\n([\s\S]*?)\n\}/.exec(source) ?? []
  const known = new Set([...fields.matchAll(/readonly (\w+)\??:/g)].map(([, name = '']) => name))
  const shown = Object.keys(JSON.parse(text.replaceAll('…', '')) as object)
  t.same(
    shown.filter((name) => !known.has(name) && !['level', 'time', 'msg'].includes(name)),
    [],
  )
  const logged = demo.log.filter(({ msg, path }) => msg === 'request' && path === '/v1/transcription')
  t.ok(logged.length > 0, 'there are real lines')
  const logs = section('Logs')
  for (const name of new Set(logged.flatMap((line) => Object.keys(line))))
    t.ok(shown.includes(name) || logs.includes(`\`${name}\``), `${name} is explained`)
}

/** The delivery of a webhook: its request line, its headers, both signatures and its body. */
async function runDelivery(t: Test, { text }: Block, { cwd }: Shell): Promise<void> {
  const [head = '', body = ''] = text.split('\n\n')
  const [line, ...headers] = head.split('\n')
  const received = Promise.withResolvers<{
    line: string
    headers: NodeJS.Dict<string | string[]>
    body: string
  }>()
  const receiver = createServer(async (request, response) => {
    let content = ''
    for await (const chunk of request.setEncoding('utf8')) content += chunk
    response.end()
    const { method, url, httpVersion } = request
    received.resolve({
      line: `${method} ${url} HTTP/${httpVersion}`,
      headers: request.headers,
      body: content,
    })
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  t.teardown(() => receiver.close())
  const { port } = receiver.address() as { port: number }

  const { url, key } = await startGateway(t, { env: { LARKWAY_INSECURE_WEBHOOKS: 'true' } })
  const authorization = `Bearer ${key}`
  const set = await fetch(`${url}/workspace/demo/stt-webhook`, {
    method: 'PUT',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ url: `http://127.0.0.1:${port}/stt` }),
  })
  const { signing_secret: secret } = (await set.json()) as { signing_secret: string }
  const audio = new Uint8Array(readFileSync(join(cwd, 'hello.wav')))
  await fetch(`${url}/v1/transcription/jobs`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'audio/wav' },
    body: audio,
  })

  const delivery = await received.promise
  t.equal(delivery.line, line)
  t.match(delivery.body, expected(body))
  for (const header of headers) {
    const [, name = '', value = ''] = /^(\S+): (.*)$/.exec(header) ?? []
    t.match(String(delivery.headers[name.toLowerCase()]), expected(value), header)
  }
  const at = (name: string) => String(delivery.headers[name])
  const sign = (secretKey: string | Buffer, signed: string) => createHmac('sha256', secretKey).update(signed)
  t.equal(
    at('x-lk-webhook-signature'),
    sign(secret, `${at('x-lk-webhook-ts')}.${delivery.body}`).digest('hex'),
  )
  const raw = Buffer.from(secret.replace('whsec_', ''), 'base64')
  const standard = sign(raw, `${at('webhook-id')}.${at('webhook-timestamp')}.${delivery.body}`).digest(
    'base64',
  )
  t.equal(at('webhook-signature'), `v1,${standard}`)
}

type Runner = (t: Test, block: Block, shell: Shell) => Promise<void>

/** A language that is missing here is a fault of the page. */
const RUNNERS: Readonly<Record<string, Runner>> = {
  console: runConsole,
  js: runProgram,
  python: runProgram,
  yaml: runYaml,
  json: runLogLine,
  http: runDelivery,
  // A drawing: it must have nothing to type in.
  text: async (t, { text }) => void t.notMatch(text, /^\$ |curl |HTTP\/1/m),
}

function skipOf({ language, notRun }: Block): string | false {
  if (notRun !== null) return notRun
  if (language === 'python' && !HAS_PYTHON) return 'the openai package is not installed'
  return language === 'console' && !HAS_CURL ? 'curl is not installed' : false
}

for (const page of MANUAL) {
  const shell = openShell(page.path)
  const packages = join(shell.cwd, 'node_modules')
  if (page.text.includes('```js')) execFileSync('ln', ['-s', PACKAGES, packages])
  for (const block of blocksOf(page)) {
    const runner = RUNNERS[block.language]
    await t.test(`${block.page}:${block.line} ${block.language}`, { skip: skipOf(block) }, async (t) => {
      if (runner === undefined) t.fail(`nothing runs a block in "${block.language}"`)
      else await runner(t, block, shell)
    })
  }
}

t.test('what is not run says why, and is counted', async (t) => {
  const fences = MANUAL.flatMap(({ text }) => text.match(/^ *```\w+/gm) ?? [])
  const blocks = MANUAL.flatMap(blocksOf)
  t.equal(blocks.length, fences.length, 'every block is seen')
  const markers = MANUAL.flatMap(({ text }) => text.match(/^<!-- not run/gm) ?? [])
  const notRun = blocks.flatMap(({ notRun }) => (notRun === null ? [] : [notRun]))
  t.equal(notRun.length, markers.length, 'every marker is above a block')
  for (const reason of notRun) t.ok(reason.length > 10, reason)
  t.equal(notRun.length, NOT_RUN)
})

t.test('another answer than the one that is shown is found', async (t) => {
  const shown = expected('{"id":"req_01m7vpxmwhcxyhwv0c3a668m1h","at":"2026-11-20T09:00:00.000Z",…,"n":1}')
  t.match('{"id":"req_01m7w411esrxhwgspkc84atf9v","at":"2027-01-01T00:00:00.123Z","x":2,"n":1}', shown)
  for (const other of ['{"id":"req_1","at":"2027-01-01T00:00:00.123Z","n":1}', '{"n":1}', ''])
    t.notMatch(other, shown)
})

t.test('blocks, their markers, commands and outputs are told apart', async (t) => {
  const text = '<!-- not run: it has no end -->\n```console\n$ a\n```\n\n```js\nb\n```\n'
  const found = blocksOf({ path: 'README.md', text })
  t.match(found, [
    { language: 'console', text: '$ a\n', notRun: 'it has no end', line: 1 },
    { language: 'js', text: 'b\n', notRun: null },
  ])
  t.same(stepsOf('$ a \\\n    b\nc\n\nd\n$ e    # why\n'), [
    { command: 'a \\\n    b', output: 'c\n\nd\n' },
    { command: 'e', output: '' },
  ])
})
