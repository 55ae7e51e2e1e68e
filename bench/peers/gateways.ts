import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture } from '../../scripts/install.mjs'
import type { Candidate, Found } from '../candidates.ts'
import { OPENAI_MODEL } from '../openai.ts'
import { NPM_PEERS } from './install.ts'

// Gateways that are not npm packages: installed where their registries have them, else skipped by name.

/** Which calls bring along; LiteLLM does not start without one, and it must be long. */
export const GATEWAY_KEY = `sk-${randomBytes(32).toString('hex')}`

/** Headers that lead a call through any of them. */
export const GATEWAY_HEADERS = { authorization: `Bearer ${GATEWAY_KEY}` }

/** The models that the loads ask for. */
const MODELS = ['gpt-4o-mini', 'whisper-1', OPENAI_MODEL]

/** How a gateway comes here. */
export interface Gateway {
  readonly name: string
  readonly label: string
  readonly version: string
  /** Tools that have to be on this machine. */
  readonly tools: readonly string[]
  /** Into an empty folder that goes where it is left half done. */
  install(folder: string, version: string): Promise<void>
  /** The one that answers `readyPath`. */
  readonly readyPath: string
  start(options: StartOptions): {
    readonly command: string
    readonly args: readonly string[]
    readonly env?: Readonly<Record<string, string>>
  }
  /** Written into a folder of the run: its name there and its content; an object is written as JSON. */
  configuration(
    upstreamPort: number,
    port: number,
  ): { readonly name: string; readonly content: object | string }
}

interface StartOptions {
  /** Where it is installed. */
  readonly folder: string
  readonly port: number
  readonly upstreamPort: number
  /** The file that `configuration` named. */
  readonly configuration: string
}

/** Installs a distribution of PyPI into an environment of its own. */
function fromPyPi(distribution: (version: string) => string): Pick<Gateway, 'tools' | 'install'> {
  return {
    tools: ['python3'],
    async install(folder, version) {
      await capture('python3', ['-m', 'venv', folder])
      const pip = join(folder, 'bin', 'pip')
      await capture(pip, ['install', '--quiet', '--disable-pip-version-check', distribution(version)])
    },
  }
}

/** LiteLLM's proxy. One worker, as all others have one. */
export const LITELLM: Gateway = {
  name: 'litellm',
  label: 'LiteLLM proxy',
  version: '1.108.7', // the newest whose extra for the proxy can be installed
  ...fromPyPi((version) => `litellm[proxy]==${version}`),
  readyPath: '/health/readiness',
  start: ({ folder, port, configuration }) => ({
    command: join(folder, 'bin', 'litellm'),
    args: ['--config', configuration, '--host', '127.0.0.1', '--port', `${port}`, '--num_workers', '1'],
    // It must not look for prices or report anything.
    env: { LITELLM_MASTER_KEY: GATEWAY_KEY, LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR' },
  }),
  configuration: (upstreamPort) => ({
    name: 'litellm.yaml', // JSON is YAML
    content: {
      model_list: MODELS.map((model) => ({
        model_name: model,
        litellm_params: {
          model: `openai/${model}`,
          api_base: `http://127.0.0.1:${upstreamPort}/v1`,
          api_key: 'sk-bench',
        },
      })),
      litellm_settings: { telemetry: false },
    },
  }),
}

/** rolter, a gateway in Rust: its wheel has the program. Without a control plane, from its file alone. */
export const ROLTER: Gateway = {
  name: 'rolter',
  label: 'rolter (Rust)',
  version: '0.1.0',
  ...fromPyPi((version) => `rolter==${version}`),
  readyPath: '/readyz',
  start: ({ folder, configuration }) => ({
    command: join(folder, 'bin', 'rolter'),
    args: ['gateway', '--config', configuration],
    env: { RUST_LOG: 'error' },
  }),
  configuration: (upstreamPort, port) => ({
    name: 'rolter.toml',
    content: [
      `[server]\nhost = "127.0.0.1"\nport = ${port}`,
      `[[providers]]\nname = "bench"\nkind = "openai_compatible"\napi_base = "http://127.0.0.1:${upstreamPort}"`,
      ...MODELS.map(
        (model) =>
          `[[routes]]\nmodel = "${model}"\nstrategy = "round_robin"\n` +
          `[[routes.targets]]\nprovider = "bench"\nmodel = "${model}"`,
      ),
      `[[virtual_keys]]\nkey = "${GATEWAY_KEY}"\nname = "bench"\nmodels = []`,
    ].join('\n'),
  }),
}

/** ferrogw, a gateway in Go: its wheel has the program. */
export const FERROGW: Gateway = {
  name: 'ferrogw',
  label: 'ferrogw (Go)',
  version: '1.5.10',
  ...fromPyPi((version) => `ferrogw==${version}`),
  readyPath: '/readyz',
  start: ({ folder, port, upstreamPort, configuration }) => ({
    command: join(folder, 'bin', 'ferrogw'),
    args: ['serve'],
    env: {
      GATEWAY_CONFIG: configuration,
      MASTER_KEY: GATEWAY_KEY,
      OPENAI_API_KEY: 'sk-bench',
      OPENAI_BASE_URL: `http://127.0.0.1:${upstreamPort}`,
      PORT: `${port}`,
      RATE_LIMIT_RPS: '0',
      LOG_LEVEL: 'error',
    },
  }),
  configuration: () => ({
    name: 'ferrogw.json',
    content: { strategy: { mode: 'single' }, targets: [{ virtual_key: 'openai' }] },
  }),
}

/** Bifrost, built from its Go module: the npm package of that name fetches a binary from elsewhere when it runs. */
export const BIFROST: Gateway = {
  name: 'bifrost',
  label: 'Bifrost',
  version: 'latest',
  tools: ['go'],
  async install(folder, version) {
    const module = `github.com/maximhq/bifrost/transports/bifrost-http@${version}`
    await capture('env', [`GOBIN=${join(folder, 'bin')}`, 'go', 'install', module])
  },
  readyPath: '/health',
  start: ({ folder, port, configuration }) => ({
    command: join(folder, 'bin', 'bifrost-http'),
    args: [
      '-host',
      '127.0.0.1',
      '-port',
      `${port}`,
      '-app-dir',
      join(configuration, '..'),
      '-log-level',
      'error',
    ],
  }),
  configuration: (upstreamPort) => ({
    name: 'config.json',
    content: {
      providers: {
        openai: {
          keys: [{ name: 'bench', value: 'sk-bench', models: ['*'], weight: 1 }],
          network_config: { base_url: `http://127.0.0.1:${upstreamPort}` },
        },
      },
      config_store: { enabled: false },
    },
  }),
}

/** Tells whether a candidate is one of these. */
export function isGateway({ name }: Candidate): boolean {
  return GATEWAYS.some((one) => one.name === name)
}

/** LiteLLM takes so long that it has fewer runs than the others. */
export function isLiteLlm({ name }: Candidate): boolean {
  return name === LITELLM.name
}

const GATEWAYS = [ROLTER, FERROGW, LITELLM, BIFROST]

/** Its crates are not published: it is released as binaries and images, which no registry of packages has. */
const AGENTGATEWAY = {
  name: 'agentgateway',
  reason:
    'it is on no registry of packages: its crates are not published, its releases are binaries and images',
}

/** The peers that are no npm packages. */
export async function gateways(): Promise<Found[]> {
  return [...(await Promise.all(GATEWAYS.map((one) => installed(one)))), AGENTGATEWAY]
}

/**
 * Installs a gateway into `.larkway/bench-peers/NAME`, once.
 *
 * @returns the gateway, or why it cannot be had here
 */
export async function installed(gateway: Gateway, parent = NPM_PEERS): Promise<Found> {
  const { name, label, version, readyPath } = gateway
  const folder = join(parent, name)
  try {
    await install(gateway, folder)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    return { name, reason: `it could not be installed: ${lastLine((error as Error).message)}` }
  }
  return {
    candidate: {
      name,
      label,
      readyPath,
      versions: { [name]: version },
      command({ port, upstreamPort, folder: run }) {
        const { name: file, content } = gateway.configuration(upstreamPort, port)
        const configuration = join(run, file)
        writeFileSync(configuration, typeof content === 'string' ? content : JSON.stringify(content))
        return gateway.start({ folder, port, upstreamPort, configuration })
      },
    },
  }
}

async function install({ name, version, tools, install }: Gateway, folder: string): Promise<void> {
  const done = join(folder, `.installed-${version}`)
  if (existsSync(done)) return
  for (const tool of tools) requireTool(tool)
  console.error(`bench: installing ${name} ${version} into .larkway/bench-peers (once)`)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await install(folder, version)
  writeFileSync(done, '')
}

function requireTool(tool: string): void {
  try {
    execFileSync('sh', ['-c', `command -v ${tool}`], { stdio: 'ignore' })
  } catch {
    throw new Error(`${tool} is not on this machine`)
  }
}

/** Results say why, but not from which mirror. */
function lastLine(text: string): string {
  const last = text.trim().split('\n').at(-1) ?? ''
  return last.trim().replaceAll(/https?:\/\/\S+/g, 'the registry')
}
