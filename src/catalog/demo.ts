import { join } from 'node:path'
import type { Snapshot } from '../schema/catalog.ts'
import { keptText } from '../secrets.ts'
import { hashKey, looksLikeKey, makeKey } from './key.ts'
import type { Surroundings } from './provider.ts'
import { buildSnapshot } from './snapshot.ts'

const KEY_FILE = 'demo-key'

export interface DemoOptions {
  /** Where the sandbox listens, e.g. `http://127.0.0.1:9090/v1`. */
  readonly sandboxUrl: string
  /** Plain; only its hash enters the snapshot. */
  readonly key: string
  readonly kinds: Surroundings['kinds']
  readonly factsOf: Surroundings['factsOf']
}

/**
 * What is served without a configuration file: workspace `demo` with one app, one key with every scope, and one route
 * for transcription, translation and speech, which the sandbox answers.
 */
export function demoSnapshot({ sandboxUrl, key, kinds, factsOf }: DemoOptions): Snapshot {
  const file = {
    providers: { sandbox: { kind: 'sandbox', base_url: sandboxUrl, access: 'byok', workspace: 'demo' } },
    routes: { demo: { workspace: 'demo', entries: [{ provider: 'sandbox', model: 'morse-1' }] } },
    workspaces: {
      demo: {
        name: 'Demo',
        apps: { demo: { route: 'demo' } },
        keys: [
          {
            id: 'key_demo',
            name: 'demo',
            app: 'demo',
            sha256: hashKey(key),
            scopes: ['inference', 'jobs', 'queue', 'admin'],
          },
        ],
      },
    },
  }
  const surroundings = { kinds, factsOf, env: {}, readSecret: refuse }
  const reading = buildSnapshot(file, surroundings)
  if ('faults' in reading) throw new Error(`the demo catalog is not valid: ${reading.faults.join('; ')}`)
  return reading.snapshot
}

/**
 * The key of the demo: the given one, else the one of the data folder, made at the first start. Two processes that
 * start at once get the same.
 *
 * @param given what the environment says, if anything
 * @throws Error when `given` or the file holds no key; never with what they hold
 */
export async function demoKey(dataFolder: string, given: string | undefined): Promise<string> {
  if (given !== undefined) return checked(given, 'LARKWAY_DEMO_KEY')
  const path = join(dataFolder, KEY_FILE)
  return checked(await keptText(path, makeKey), path)
}

function checked(key: string, source: string): string {
  if (looksLikeKey(key)) return key
  throw new Error(`${source} holds no API key of Larkway; "larkway key make" makes one`)
}

function refuse(): never {
  throw new Error('the demo reads no secrets')
}
