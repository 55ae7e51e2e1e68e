import { join } from 'node:path'
import { SCOPES } from '../../contracts/catalog.ts'
import { keptText } from '../../contracts/secrets.ts'
import { hashKey, looksLikeKey, makeKey } from './key.ts'
import type { ProviderContext } from './provider.ts'
import { openServing, type Serving } from './serving.ts'

const KEY_FILE = 'demo-key'

export interface DemoOptions extends ProviderContext {
  /** Plain; only its hash enters the snapshot. */
  readonly key: string
}

/**
 * Serves a catalog without a configuration file: workspace `demo` with one app, one key with every scope, and one route
 * for transcription, translation and speech, which the sandbox answers. Published records are added to it as to a file.
 */
export function openDemo({ key, ...surroundings }: DemoOptions): Serving {
  const document = {
    providers: { sandbox: { kind: 'sandbox', access: 'byok', workspace: 'demo' } },
    routes: {
      demo: { workspace: 'demo', encode: true, entries: [{ provider: 'sandbox', model: 'morse-1' }] },
    },
    workspaces: {
      demo: {
        name: 'Demo',
        apps: { demo: { route: 'demo' } },
        keys: [{ id: 'key_demo', name: 'operator', app: 'demo', sha256: hashKey(key), scopes: [...SCOPES] }],
      },
    },
  }
  const serving = openServing({ document, hash: 'demo' }, surroundings)
  if ('issues' in serving) throw new Error(`the demo catalog is not valid: ${serving.issues.join('; ')}`)
  return serving
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
