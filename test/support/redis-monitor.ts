import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { basename } from 'node:path'
import { createInterface } from 'node:readline'
import type { RedisServer } from './redis-server.ts'
import type { Teardown } from './scratch.ts'
import { waitUntil } from './wait-until.ts'

const SCRIPTS = new URL('../../src/gateway/state/redis/', import.meta.url)

/** By the name of their file. */
const TEXTS: ReadonlyMap<string, string> = new Map(
  readdirSync(SCRIPTS, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.lua'))
    .map((file) => [basename(file, '.lua'), readFileSync(new URL(file, SCRIPTS), 'utf8')]),
)

/** What runs in front of some of them. */
const STEPS = [...TEXTS].filter(([name]) => name.endsWith('_steps')).map(([, text]) => text)

/** SHA-1, by which EVALSHA calls a script → the name of its file. */
const NAMES: ReadonlyMap<string, string> = new Map(
  [...TEXTS].flatMap(([name, text]) => ['', ...STEPS].map((steps) => [sha1(steps + text), name] as const)),
)

/** What a command is called: a script by its file, anything else by its first word in lower case. */
export function nameOfCommand([command = '', script = '']: readonly string[]): string {
  const name = command.toLowerCase()
  if (name === 'evalsha') return NAMES.get(script) ?? name
  if (name === 'eval') return NAMES.get(sha1(script)) ?? name
  return name
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}

/** How often each command came to Redis, by name. */
export type CommandCounts = Readonly<Record<string, number>>

/** Listens to all that clients send to Redis; what scripts do inside is no trip and is left out. */
export interface RedisMonitor {
  /** The commands that came while `work` went on. */
  during(work: () => Promise<unknown>): Promise<CommandCounts>
}

/** `+1700000000.000001 [0 127.0.0.1:40000] "evalsha" "…"`; a script's own commands come from `lua`. */
const LINE = /^\+[\d.]+ \[\d+ ([^\]]+)\] (.*)$/
const WORD = /"((?:[^"\\]|\\.)*)"/g

export async function startRedisMonitor(t: Teardown, redis: RedisServer): Promise<RedisMonitor> {
  const marks = new Set<string>()
  let counts: Record<string, number> = {}
  const open = async () => {
    const socket = connect(redis.socketPath)
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    return socket
  }
  const [listener, speaker] = [await open(), await open()]
  speaker.resume()
  createInterface({ input: listener }).on('line', (line) => {
    const [, client, command = ''] = LINE.exec(line) ?? []
    if (client === undefined || client === 'lua') return
    const words = [...command.matchAll(WORD)].map(([, word = '']) => unescaped(word))
    const name = nameOfCommand(words)
    if (name === 'echo') marks.add(words[1] ?? '')
    else counts[name] = (counts[name] ?? 0) + 1
  })
  listener.write('MONITOR\r\n')

  let nextMark = 0
  /** Resolves when all that Redis was sent before is counted. */
  const mark = async () => {
    const text = `mark-${nextMark++}`
    speaker.write(`ECHO ${text}\r\n`)
    if (!(await waitUntil(() => marks.has(text)))) throw new Error('Redis does not tell what it is sent')
  }
  await mark()
  return {
    async during(work) {
      await mark()
      counts = {}
      await work()
      await mark()
      return counts
    },
  }
}

const ESCAPE = /\\(?:x([0-9a-f]{2})|(.))/g
const CONTROLS: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b' }

function unescaped(word: string): string {
  return word.replace(ESCAPE, (_, hex: string | undefined, sign: string) =>
    hex === undefined ? (CONTROLS[sign] ?? sign) : String.fromCharCode(Number.parseInt(hex, 16)),
  )
}
