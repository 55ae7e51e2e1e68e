import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'

const SCRIPTS = new URL('../../src/state/redis/', import.meta.url)

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
