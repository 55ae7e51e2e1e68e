import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { CACHE, capture, say, Unusable, withLock } from '../../scripts/install.mjs'
import { childEnvironment } from './child-environment.ts'

/** Vendors' clients in Python that judge the doors and the fakes, and all that they need, as pip names it. */
const PINNED: readonly string[] = [
  'annotated-types==0.8.0',
  'anyio==4.16.0',
  'assemblyai==1.8.2',
  'certifi==2026.10.18',
  'charset-normalizer==3.5.2',
  'click==8.4.0',
  'deepgram-sdk==7.17.0',
  'elevenlabs==2.78.0',
  'eval_type_backport==0.4.0',
  'h11==0.16.0',
  'httpcore2==2.16.2',
  'httpcore==1.0.9',
  'httpx2==2.16.2',
  'httpx==0.28.1',
  'idna==3.20',
  'jiter==0.19.0',
  'jiwer==4.0.0',
  'jsonpath-python==1.1.6',
  'mistralai==3.7.0',
  'openai==3.54.0',
  'opentelemetry-api==1.45.2',
  'opentelemetry-semantic-conventions==0.66b2',
  'pydantic==2.14.3',
  'pydantic_core==2.50.4',
  'python-dateutil==4.0.0',
  'rapidfuzz==3.14.6',
  'requests==2.34.2',
  'sniffio==1.3.1',
  'sqlglot==30.30.0',
  'truststore==0.10.5',
  'typing-inspection==0.4.5',
  'typing_extensions==4.16.0',
  'tzdata==2026.6',
  'urllib3==2.8.0',
  'websockets==17.4',
]

/** A client that is there, or why it is not. */
export interface PythonClient {
  /** For tap: `t.test(name, { skip: client.skip }, …)`, so that what cannot be tried is skipped by name and counted. */
  readonly skip: string | false
  /**
   * Runs a program of test/support.
   *
   * @returns what it printed, a JSON value on each line
   * @throws Error when it fails, with what it said
   */
  run(program: string, args: readonly string[]): Promise<Record<string, unknown>[]>
}

/**
 * Finds a package of Python's, or fetches it and what it needs into `.larkway/` (once, some ten seconds). Where there
 * is no Python, no pip or no index within reach, its tests are skipped.
 *
 * @param names packages of the list above, which name the folder together
 */
export async function pythonClient(...names: readonly [string, ...string[]]): Promise<PythonClient> {
  const never = (skip: string): PythonClient => ({ skip, run: () => Promise.reject(new Unusable(skip)) })
  const version = spawnSync('python3', ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])'])
  if (version.status !== 0) return never('there is no python3')
  if (spawnSync('python3', ['-m', 'pip', '--version']).status !== 0) return never('python3 has no pip')
  const wanted = names.map((name) => pinned(name))
  const name = ['python', String(version.stdout).trim(), ...wanted.map((one) => one.replace('==', '-'))].join(
    '-',
  )
  try {
    const folder = await withLock(name, () => installed(name, wanted))
    return { skip: false, run: (program, args) => run(folder, program, args) }
  } catch (error) {
    if (!(error instanceof Unusable)) throw error
    say(error.message)
    return never(`pip could not install ${wanted.join(' ')}`)
  }
}

function pinned(name: string): string {
  const found = PINNED.find((one) => one.startsWith(`${name}==`))
  if (found === undefined) throw new Error(`${name} has no version`)
  return found
}

/** The folder appears whole or not at all. */
async function installed(name: string, wanted: readonly string[]): Promise<string> {
  const folder = join(CACHE, name)
  if (existsSync(folder)) return folder
  say(`fetching ${wanted.join(' ')} into .larkway/${name} (once)`)
  const draft = `${folder}.draft`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { recursive: true })
  const pins = join(draft, 'constraints.txt')
  writeFileSync(pins, PINNED.join('\n'))
  const quiet = ['--quiet', '--no-input', '--disable-pip-version-check', '--no-warn-conflicts']
  // Compiles every module of it, which would be on the clock of the first test that loads them otherwise.
  const pip = ['-m', 'pip', 'install', ...quiet, '--target', draft, '--constraint', pins]
  try {
    await capture('python3', [...pip, ...wanted])
    renameSync(draft, folder)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
  return folder
}

async function run(folder: string, program: string, args: readonly string[]) {
  const path = fileURLToPath(new URL(program, import.meta.url))
  // A proxy of the machine's would be asked for the loopback interface, too.
  const env = childEnvironment({ PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1', NO_PROXY: '*' })
  const { stdout } = await promisify(execFile)('python3', [path, ...args], { env, timeout: 60_000 })
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}
