import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { pino, symbols } from 'pino'
import t from 'tap'
import { createLogger } from '../../src/contracts/log.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'

const CANARY = 'what the caller said'

/** Runs a script of the product's folder, and gives the lines that it logged. */
async function linesOf(script: string): Promise<Record<string, unknown>[]> {
  const imports = `
    import { GatewayError } from './src/contracts/errors.ts'
    import { createLogger } from './src/contracts/log.ts'
    const log = createLogger('info')
  `
  const cwd = new URL('../..', import.meta.url)
  const node = ['--input-type=module', '--eval', imports + script]
  const { stdout } = await promisify(execFile)(process.execPath, node, { cwd })
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

t.test('an error is logged by what it is and why, down to its last cause', async (t) => {
  const [line] = await linesOf(`
    const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
    log.warn({ err: new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause }) }, 'away')
  `)
  t.match(line, {
    level: 'warn',
    msg: 'away',
    err: {
      type: 'GatewayError',
      code: 'DEPENDENCY_UNAVAILABLE',
      message: /does not answer: refused$/,
      stack: /caused by: Error: refused/,
    },
  })
})

t.test('and not by what was to be done, which clients hang onto it', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t, { args: ['--maxmemory', '1'] })
  const lines = await linesOf(`
    import { Redis } from 'ioredis'
    const redis = new Redis('${redis.url}')
    const cause = await redis.set('key', '${CANARY}').catch((error) => error)
    log.warn({ err: cause }, cause.command.args[1] === '${CANARY}' ? 'it is there' : 'it is not')
    log.warn({ err: new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause }) })
    log.warn({ err: new GatewayError('INTERNAL', undefined, { details: { said: '${CANARY}' } }) })
    log.warn({ err: { said: '${CANARY}' } })
    redis.disconnect()
  `)
  t.equal(lines.length, 4)
  t.match(lines, [{ msg: 'it is there', err: { message: /OOM/ } }, { err: { message: /OOM/ } }])
  t.notMatch(JSON.stringify(lines.map(({ err }) => err)), CANARY)
})

t.test('nor by what its message quotes', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t, { args: ['--rename-command', 'AUTH', ''] })
  const lines = await linesOf(`
    import { Redis } from 'ioredis'
    import { errorMessage, stackOf } from './src/contracts/log.ts'
    const thrown = (broken) => {
      try {
        broken()
      } catch (error) {
        return error
      }
    }
    const redis = new Redis('${redis.url}')
    redis.on('error', () => {})
    const errors = [
      thrown(() => JSON.parse('${CANARY}')),
      thrown(() => JSON.parse('{"text": "${CANARY}" ${CANARY}}')),
      thrown(() => JSON.parse('"${CANARY}')),
      thrown(() => Buffer.alloc('${CANARY}')),
      thrown(() => new Intl.Locale('${CANARY}')),
      await redis.call('AUTH', '${CANARY}').catch((error) => error),
    ]
    for (const error of errors) {
      const wrapped = new GatewayError('INTERNAL', undefined, { cause: error })
      log.error({ err: wrapped, reason: errorMessage(error), stack: stackOf(wrapped) }, String(error.name))
    }
    redis.disconnect()
  `)
  t.same(
    lines.map(({ msg }) => msg),
    ['SyntaxError', 'SyntaxError', 'SyntaxError', 'TypeError', 'RangeError', 'ReplyError'],
  )
  // JSON's own quotes are of 10 characters.
  for (const line of lines)
    for (const part of ['what', 'the caller', 'said']) t.notMatch(JSON.stringify(line), part)
  for (const { err } of lines) t.match(err, { type: 'GatewayError', stack: /\n {4}at .*\ncaused by: /s })
  t.match(lines.at(-1), { reason: "ERR unknown command 'AUTH'" }, 'what is left says what is wrong')
})

t.test('what ends the process is a line like others', async (t) => {
  const script = `
    import { createLogger, logCrash } from './src/contracts/log.ts'
    const log = createLogger('info')
    logCrash(log)
    log.info('before')
    process.emitWarning('something leaks')
    const hanging = { command: { args: ['${CANARY}'] } }
    setTimeout(() => void Promise.reject(Object.assign(new Error('nobody catches it'), hanging)))
  `
  const cwd = new URL('../..', import.meta.url)
  const ending = promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], { cwd })
  const { code, stdout, stderr } = await ending.then(
    () => t.fail('it did not end'),
    (error) => error,
  )
  t.equal(code, 1)
  const [before, warned, crashed] = stdout
    .trim()
    .split('\n')
    .map((line: string) => JSON.parse(line))
  t.match(before, { msg: 'before' })
  t.match(warned, { level: 'warn', msg: 'Node warns', err: { message: 'something leaks' } })
  t.equal(stderr, '', 'and nothing stands beside the log')
  t.match(crashed, { level: 'fatal', msg: 'crashed', err: { type: 'Error', message: 'nobody catches it' } })
  t.notMatch(stdout + stderr, CANARY)
})

t.test('a log that is not read takes some memory, and says later what was lost', async (t) => {
  const script = `
    import { createLogger } from './src/contracts/log.ts'
    const log = createLogger('info')
    const path = '/'.padEnd(1_000, 'x')
    for (let bytes = 0; bytes < 100_000; bytes++) log.info({ path, bytes }, 'request')
    const waiting = process.stdout.writableLength
    process.stderr.write('written')
    process.stdin.once('data', () => process.stdout.write('', () => {
      // More than the pipe takes at once.
      for (let bytes = 100_000; bytes < 100_050; bytes++)
        log.info({ path: path.repeat(20), bytes }, 'request')
      log.info({ bytes: waiting }, 'read')
      log.flush(() => process.exit())
    }))
  `
  const cwd = new URL('../..', import.meta.url)
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { cwd })
  await once(child.stderr, 'data')
  const read = text(child.stdout)
  child.stdin.end('go on')
  const lines = (await read)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const last = lines.pop()
  const [lost, ...others] = lines.filter(({ level }) => level === 'warn')
  t.match(lost, { msg: 'lines of the log were lost: nothing read them' })
  t.same(others, [])
  let next = 0
  for (const { level, count, bytes } of lines) {
    if (level === 'warn') next += count
    else if (bytes !== next++) t.fail(`line ${bytes} is out of place`)
  }
  t.equal(next, 100_050, 'no other line is lost, and those are where it says so')
  t.ok(lost.count > 50_000)
  t.ok(last.bytes < 40_000_000, `${last.bytes} bytes wait`)
})

t.test('a field that is not in the list does not compile', (t) => {
  const log = createLogger('silent')
  const facts = { request_id: 'req_1', headers: { authorization: 'Bearer x' } }
  const attempt = { provider: 'a', model: 'b', status: 200, milliseconds: 1, reason: 'ok' }
  // The compiler is what tests this: each line is an error that it expects.
  // @ts-expect-error: named at once
  log.info({ request_id: 'req_1', transcript: 'x' }, 'request')
  // @ts-expect-error: with others, out of a variable
  log.info(facts, 'request')
  // @ts-expect-error: spread
  log.error({ ...facts, status: 500 }, 'request')
  // @ts-expect-error: of a type that is not the field's
  log.warn({ status: { body: 'x' } }, 'request')
  // @ts-expect-error: within an attempt
  log.warn({ attempts: [{ ...attempt, said: 'x' }] }, 'request')
  // @ts-expect-error: an error as it is
  log.error(new Error('x'), 'request')
  log.info({ request_id: 'req_1', attempts: [attempt] }, 'request')
  t.end()
})

t.test('a line is the one that pino makes', async (t) => {
  const lines: string[] = []
  const own = createLogger('debug', { write: (line) => void lines.push(line) })
  // The same logger, with pino's own writer of lines.
  const pinos = Object.assign(createLogger('debug', { write: (line) => void lines.push(line) }), {
    [symbols.asJsonSym]: (pino({}) as unknown as Record<symbol, unknown>)[symbols.asJsonSym],
  })
  const attempt = { provider: 'a"b', model: 'm', status: null, milliseconds: 1.25, reason: 'no\nanswer' }
  const error = Object.assign(new Error('it broke: "secret"'), { code: 'EPIPE' })
  for (const log of [own, own.child({ pid: 7 })])
    for (const say of [
      (logger: typeof log) =>
        logger.info({ request_id: 'req_1', status: 200, attempts: [attempt, attempt] }, 'request'),
      (logger: typeof log) =>
        logger.info({ request_id: 'ä😀\u2028"\\', trace_id: undefined, job_id: undefined }, 'request'),
      (logger: typeof log) =>
        logger.warn({ milliseconds: Number.NaN, known: null, changed: false }, 'said "so"'),
      (logger: typeof log) => logger.error({ count: 3, err: error, path: '/v1/chat' }, 'broke'),
      (logger: typeof log) => logger.error({ err: error }, undefined as unknown as string),
      (logger: typeof log) => logger.debug({}, 'nothing more'),
      (logger: typeof log) => logger.fatal('a message alone'),
    ]) {
      say(log)
      say(log === own ? pinos : pinos.child({ pid: 7 }))
      const [one, other] = lines.splice(0).map((line) => line.replace(/"time":"[^"]*"/, '"time":""'))
      t.equal(one, other)
    }
})
