import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { startRedis } from './support/redis-server.ts'
import { withoutServers } from './support/servers.ts'

const CANARY = 'what the caller said'

/** Runs a script of the product's folder, and gives the lines that it logged. */
async function linesOf(script: string): Promise<Record<string, unknown>[]> {
  const imports = `
    import { GatewayError } from './src/errors.ts'
    import { createLogger } from './src/log.ts'
    const log = createLogger('info')
  `
  const cwd = new URL('..', import.meta.url)
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
