import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { hashKey, looksLikeKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { EXAMPLE } from '../support/catalog-file.ts'
import { childEnvironment } from '../support/child-environment.ts'
import { larkway, runInProcess } from '../support/cli.ts'
import { startSqliteBench } from '../support/cli-state.ts'
import { programOf } from '../support/program.ts'
import { freePort } from '../support/scratch.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('help, version and nothing', async (t) => {
  for (const args of [['help'], ['--help'], []]) {
    const { code, output, errors } = await larkway(args)
    t.match({ code, output, errors }, { code: 0, output: /^larkway <command>\n/, errors: '' })
  }
  for (const args of [
    ['check', '--help'],
    ['models', '--help'],
    ['route', '--help'],
    ['route', 'diff', '--help'],
  ])
    t.match(await runInProcess(args), { code: 0, output: /^larkway <command>\n/, errors: '' })
  for (const args of [
    ['key', '--help'],
    ['key', 'create', '--help'],
    ['credits', 'show', '--help'],
  ])
    t.match(await runInProcess(args), {
      code: 0,
      output: new RegExp(`^larkway ${args[0]} <action>\n`),
      errors: '',
    })
  t.match(await larkway(['version']), { code: 0, output: /^larkway \d+\.\d+\.\d+\n$/ })
})

t.test('a command line that cannot be followed ends with 2 and one sentence', async (t) => {
  const rows: readonly [readonly string[], string | RegExp][] = [
    [['constructor'], 'there is no command "constructor"; see larkway help'],
    [['check', 'a.yaml', 'b.yaml'], 'unexpected argument "b.yaml"'],
    [['route'], 'route takes explain or diff'],
    [
      ['route', 'explain', '--endpoint', 'transcription'],
      'route explain needs --key; see larkway route explain --help',
    ],
    [['route', 'diff', 'a.yaml'], 'route diff takes two configuration files'],
    [['models', 'wisper'], /^there is no kind "wisper"; there are anthropic, /],
    [['key'], 'key takes create, change, rotate, list, revoke, make or hash; see larkway key --help'],
    [['key', 'make', 'x'], 'unexpected argument "x"'],
    [['credits'], 'credits takes add or show; see larkway credits --help'],
  ]
  const ofProcesses: typeof rows = [
    [['fly'], 'there is no command "fly"; see larkway help'],
    [['sandbox', '--port', '70000'], '--port takes 0 to 65535'],
  ]
  const results = [
    ...rows.map(([args, sentence]) => ({ args, sentence, run: runInProcess })),
    ...ofProcesses.map(([args, sentence]) => ({ args, sentence, run: larkway })),
  ]
  for (const { args, sentence, run } of results) {
    const { code, output, errors } = await run(args)
    t.same({ code, output }, { code: 2, output: '' }, args.join(' '))
    t.match(errors.replace(/^larkway: |\n$/g, ''), sentence)
  }
  t.match(await runInProcess(['check', '--fast']), { code: 2, errors: "larkway: Unknown option '--fast'\n" })
})

t.test('a key is made, and its hash is what the configuration takes', async (t) => {
  const { code, output } = await runInProcess(['key', 'make'])
  t.equal(code, 0)
  const [, key = '', sha256] = /^key {5}(\S+)\nsha256 {2}(\S+)\n$/.exec(output) ?? []
  t.ok(looksLikeKey(key))
  t.equal(sha256, hashKey(key))
  t.same(await runInProcess(['key', 'hash', key]), { code: 0, output: `${sha256}\n`, errors: '' })
  t.same(await larkway(['key', 'hash'], { input: `${key}\n` }), {
    code: 0,
    output: `${sha256}\n`,
    errors: '',
  })
})

t.test('what is no key is not hashed, and not repeated', async (t) => {
  const mistyped = makeKey().replace(/.$/, (last) => (last === '0' ? '1' : '0'))
  for (const input of [mistyped, '', 'password'])
    t.same(await runInProcess(['key', 'hash'], { input }), {
      code: 2,
      output: '',
      errors: 'larkway: this is not an API key of Larkway, or it has a typing error\n',
    })
})

t.test('check shows what a valid file amounts to, without its secrets', async (t) => {
  const cwd = t.testdir({ 'larkway.yaml': EXAMPLE })
  const env = { OPENAI_API_KEY: 'sk-of-openai' }
  const { code, output, errors } = await larkway(['check'], { cwd, env })
  t.match({ code, errors }, { code: 0, errors: '' })
  t.match(output, /^larkway\.yaml is valid\.\n\nWORKSPACE +ROUTE +VERSION +STRATEGY +ENTRIES\n/)
  t.match(output, /\nacme +voice +pv_[0-9a-f]{16} +priority +whisper\/large-v3, openai\/gpt-transcribe\n/)
  t.match(output, /\nacme +web +key_web +voice +inference,jobs,queue +60\/min, burst 100 +never\n/)
  t.notMatch(output, /sk-of-openai/)
  const named = await runInProcess(['check', join(cwd, 'larkway.yaml')], { env })
  t.equal(named.code, 0)
  const configured = await runInProcess(['check'], {
    env: { ...env, LARKWAY_CONFIG: join(cwd, 'larkway.yaml') },
  })
  t.equal(configured.code, 0)
})

t.test('check lists every fault of an invalid file', async (t) => {
  const cwd = t.testdir({ 'larkway.yaml': EXAMPLE.replace('route: voice', 'route: vioce, rout: 1') })
  t.same(await larkway(['check'], { cwd }), {
    code: 1,
    output: [
      'larkway.yaml is not valid:',
      '  /workspaces/acme/apps/web/rout: is not a known key; remove it or correct its spelling',
      '  /providers/openai/api_key: the environment variable OPENAI_API_KEY is not set',
      '  /workspaces/acme/apps/web/route: there is no route "vioce"',
      '',
    ].join('\n'),
    errors: '',
  })
  t.match(await runInProcess(['check', 'nothing.yaml'], { cwd }), {
    code: 1,
    output: /cannot be read \(ENOENT\)/,
  })
})

t.test('a command ends as a process what it does in this one, and leaves nothing open', async (t) => {
  const { folder, config } = await startSqliteBench(t)
  const env = { LARKWAY_DATA: folder }
  for (const args of [
    ['key', 'create', '--workspace', 'acme', '--app', 'web', '--name', 'phone'],
    ['credits', 'add', '--workspace', 'acme', '--usd', '1', '--id', 'first'],
  ])
    t.match(await larkway(args, { cwd: folder, env }), { code: 0, errors: '' }, args.join(' '))
  for (const args of [
    ['credits', 'show', '--json'],
    ['jobs', 'list'],
    ['export'],
    ['import', config, '--dry-run'],
    ['schema'],
  ]) {
    const own = await larkway(args, { cwd: folder, env })
    t.same(own, await runInProcess(args, { cwd: folder, env }), args.join(' '))
    t.not(own.output, '')
  }
})

t.test('serve says what keeps it from serving, and ends', async (t) => {
  const cwd = t.testdir({ 'larkway.yaml': EXAMPLE })
  const { code, errors } = await larkway(['serve'], { cwd, env: { PORT: '0' } })
  t.equal(code, 1)
  t.match(errors, /larkway\.yaml is not valid:\n {2}\/providers\/openai\/api_key: the environment variable/)
})

t.test('the sandbox runs alone until it is stopped', async (t) => {
  const program = await programOf('cli.ts')
  const child = spawn(process.execPath, [...program.args, 'sandbox', '--port', '0'], {
    env: childEnvironment(program.env),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill())
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  const url = /^sandbox listens on (http:\/\/127\.0\.0\.1:\d+\/v1)$/.exec(line)?.[1]
  const response = await fetch(`${url}/models`)
  t.equal(response.status, 200)
  t.match(await response.json(), { data: [{ id: 'morse-1' }] })
  const second = await larkway(['sandbox', '--port', new URL(`${url}`).port])
  t.match(second, { code: 1, errors: /^larkway: listen EADDRINUSE: [^\n]*\n$/ })
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [null, 'SIGTERM'])
})

t.test('output that cannot be written is a fault of a command, and none of a server', async (t) => {
  const program = await programOf('cli.ts')
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const start = (args: readonly string[], env: Record<string, string> = {}) => {
    const child = spawn(process.execPath, [...program.args, ...args], {
      env: childEnvironment({ ...program.env, ...env }),
      stdio: ['ignore', full, 'pipe'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    return { child, errors: text(child.stderr!), exited: once(child, 'exit') }
  }
  const schema = start(['schema'])
  t.same(await schema.exited, [1, null])
  t.equal(await schema.errors, 'larkway: ENOSPC: no space left on device, write\n')
  const env = childEnvironment(program.env)
  const mute = spawn(process.execPath, [...program.args, 'nonsense'], {
    env,
    stdio: ['ignore', 'ignore', full],
  })
  t.same(await once(mute, 'exit'), [2, null], 'nor is a complaint')
  for (const count of ['1', '2']) {
    const port = String(await freePort())
    const env = { PORT: port, HOST: '127.0.0.1', LARKWAY_DATA: t.testdir() }
    const server = start(['serve', '--processes', count], env)
    const isAlive = () => fetch(`http://127.0.0.1:${port}/healthz`).then(({ ok }) => ok)
    t.ok(await waitUntil(() => isAlive().catch(() => false)), count)
    server.child.kill('SIGINT')
    t.same(await server.exited, [0, null])
  }
})

t.test('a server takes signals before its start has ended, from when it listens', async (t) => {
  const program = await programOf('cli.ts')
  for (const signals of [['SIGINT'], ['SIGHUP', 'SIGINT']] as const) {
    const port = await freePort()
    const env = { ...program.env, PORT: String(port), HOST: '127.0.0.1', LARKWAY_DATA: t.testdir() }
    const child = spawn(process.execPath, [...program.args, 'serve'], {
      env: childEnvironment(env),
      stdio: 'ignore',
    })
    t.teardown(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    t.ok(await waitUntil(() => isListening(port), 10_000, 1))
    for (const signal of signals) child.kill(signal)
    t.same(await exited, [0, null], signals.join(', '))
  }
})

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const isConnected = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return isConnected
}
