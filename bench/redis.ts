import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { keys } from '../src/gateway/state/redis/key-names.ts'
import { freePort } from '../test/support/scratch.ts'
import { locate } from '../test/support/servers.ts'
import type { Found } from './candidates.ts'

/** Slowest start that is waited for. */
const START_MS = 10_000

export interface RedisOptions {
  /** Every acknowledged write is on the disk (`appendfsync always`). */
  readonly durable: boolean
}

/**
 * Beside the load, as it would be on a machine of its own. Ends with the bench, and keeps it from nothing.
 *
 * @returns its URL, or why there is none
 */
export async function startRedis({ durable }: RedisOptions): Promise<string | Error> {
  try {
    const { command, env } = await locate('redis')
    const port = await freePort()
    const [program = '', ...before] = command
    const folder = mkdtempSync(join(tmpdir(), 'larkway-bench-redis-'))
    const place = availableParallelism() > 1 ? ['--server_cpulist', '1'] : []
    const keep = durable ? ['--appendonly', 'yes', '--appendfsync', 'always'] : []
    const args = [...before, '--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '']
    const redis = spawn(program, [...args, ...keep, ...place], {
      cwd: folder,
      env: { ...process.env, ...env },
      stdio: 'ignore',
    })
    redis.unref()
    process.once('exit', () => {
      redis.kill('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    })
    return `redis://127.0.0.1:${port}`
  } catch (error) {
    return error as Error
  }
}

/**
 * Empties a Redis but for its generation: the bucket remembers that, and a Redis without it counts as one that has lost
 * what it held.
 */
const EMPTY =
  `EVAL "for _, key in ipairs(redis.call('KEYS', '*')) do ` +
  `if key ~= '${keys.generation}' then redis.call('UNLINK', key) end end return redis.status_reply('OK')" 0\r\n`

/** The same server with its state in a Redis, which is emptied before each start. */
export function overRedis(found: Found, redis: string | Error): Found {
  if (!('candidate' in found)) return found
  const { candidate } = found
  if (redis instanceof Error) return { name: candidate.name, reason: redis.message }
  return {
    candidate: {
      ...candidate,
      async command(place) {
        await empty(redis)
        const command = await candidate.command(place)
        return { ...command, env: { ...command.env, REDIS_URL: redis } }
      },
    },
  }
}

/** So that what one run left is not the next one's. The server may have been started just now. */
async function empty(redis: string): Promise<void> {
  const untilMs = performance.now() + START_MS
  for (;;) {
    try {
      return await flush(Number(new URL(redis).port))
    } catch (error) {
      if (performance.now() > untilMs) throw error
    }
    await sleep(50)
  }
}

function flush(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', reject)
    socket.once('connect', () => socket.write(EMPTY))
    socket.once('data', (reply) => {
      socket.destroy()
      if (reply.toString().startsWith('+OK')) resolve()
      else reject(new Error(`emptying Redis: ${reply.toString().trim()}`))
    })
  })
}
