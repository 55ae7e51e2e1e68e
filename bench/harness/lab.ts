import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../test/support/scratch.ts'
import type { Candidate } from '../candidates.ts'
import type { ReadyReport, ReadyTask } from '../load/ready.ts'
import type { UpstreamReport, UpstreamTask } from '../upstream.ts'
import { type Network, systemNetwork } from './network.ts'
import { type Role, type Running, start, startProgram } from './processes.ts'

/** Slowest start that is waited for, and how often it is looked whether the server has ended instead. */
const READY_MS = 60_000
const LOOK_MS = 250

/** A server that is up. */
export interface Served {
  readonly server: Running
  readonly port: number
  /** From the start of its process to its first 200. */
  readonly startMs: number
}

type Generator =
  | ('uploads' | 'requests' | 'autocannon' | 'pings' | 'jobs')
  | ('webhooks' | 'consoles' | 'ready' | 'live')

/** The processes of one scenario but the servers: its upstream, and load generators that stay warm between runs. */
export class Lab {
  readonly network: Network
  readonly upstreamPort: number
  readonly #folder: string
  readonly #upstream: Running
  readonly #generators = new Map<Generator, Running>()
  /** By what they lead to: two processes each, and the address that stands for it. */
  readonly #relays = new Map<string, { processes: Running[]; endpoint: string }>()
  #servers = 0

  static async open(network: Network, upstream: { program: string; args: readonly string[] }): Promise<Lab> {
    const folder = mkdtempSync(join(tmpdir(), 'larkway-bench-'))
    process.once('exit', () => rmSync(folder, { recursive: true, force: true })) // also when it is interrupted
    const port = await freePort()
    const options = { name: 'upstream', role: 'load' as const, network, folder }
    const running = startProgram(upstream.program, [String(port), ...upstream.args], options)
    const lab = new Lab(network, port, folder, running)
    await running.run<UpstreamTask, UpstreamReport>({ verify: false })
    return lab
  }

  private constructor(network: Network, upstreamPort: number, folder: string, upstream: Running) {
    this.network = network
    this.upstreamPort = upstreamPort
    this.#folder = folder
    this.#upstream = upstream
  }

  /** All that asks or answers the server; what they need of the CPU is the client's share. */
  get clientPids(): number[] {
    return [this.#upstream, ...this.#generators.values(), ...this.#relayProcesses].map(({ pid }) => pid)
  }

  /** Has the upstream keep each body and answer with its digest, or not; returns what it counted since the last. */
  async upstream(task: UpstreamTask): Promise<UpstreamReport> {
    return await this.#upstream.run<UpstreamTask, UpstreamReport>(task)
  }

  async generate<Input, Output>(generator: Generator, task: Input): Promise<Output> {
    let running = this.#generators.get(generator)
    if (!running) {
      const role: Role = generator === 'pings' ? 'pings' : 'load'
      const options = { name: generator, role, network: this.network, folder: this.#folder }
      running = startProgram(`load/${generator}.ts`, [], options)
      this.#generators.set(generator, running)
    }
    return await running.run<Input, Output>(task)
  }

  /**
   * Starts a fresh server, so that one run's memory and caches are not the next one's.
   *
   * @param role `start` has all cores, as a server has before its first call
   */
  async serve(candidate: Candidate, role: 'server' | 'start' = 'server'): Promise<Served> {
    const folder = join(this.#folder, `server-${++this.#servers}`)
    mkdirSync(folder)
    const port = await freePort()
    const reach = (endpoint: string) => this.#reach(endpoint)
    const command = await candidate.command({ port, upstreamPort: this.upstreamPort, folder, reach })
    const startedMs = Date.now()
    const server = start({ ...command, name: candidate.name, role, network: this.network, folder })
    let ended = ''
    server.ended.then((how) => {
      ended = how
    })
    const task: ReadyTask = { port, path: candidate.readyPath, forMs: LOOK_MS }
    for (;;) {
      const readyMs = await this.generate<ReadyTask, ReadyReport>('ready', task)
      if (readyMs !== null) return { server, port, startMs: readyMs - startedMs }
      if (!ended && Date.now() < startedMs + READY_MS) continue
      const failure = `${candidate.name} ${ended || 'was not ready in time'}\n${server.lastLines()}`
      await server.stop()
      throw new Error(failure)
    }
  }

  async close(): Promise<void> {
    const relays = [...this.#relays.values()].flatMap(({ processes }) => processes)
    await Promise.all(
      [this.#upstream, ...this.#generators.values(), ...relays].map((running) => running.stop()),
    )
    rmSync(this.#folder, { recursive: true, force: true })
  }

  get #relayProcesses(): Running[] {
    return [...this.#relays.values()].flatMap(({ processes }) => processes)
  }

  /** From a namespace of its own nothing outside can be called: a relay in there, and one out here, carry it over. */
  async #reach(endpoint: string): Promise<string> {
    if (this.network.kind === 'system') return endpoint
    const known = this.#relays.get(endpoint)
    if (known) return known.endpoint
    const { protocol, hostname, port: outerPort } = new URL(endpoint)
    if (protocol !== 'http:')
      throw new Error(`${endpoint} cannot be relayed into the capped network: not http`)
    const port = await freePort()
    const path = join(this.#folder, `relay-${port}`)
    const options = { role: 'load' as const, folder: this.#folder }
    const inside = { ...options, name: `relay-${port}-inside`, network: this.network }
    const outside = { ...options, name: `relay-${port}-outside`, network: systemNetwork() }
    const processes = [
      startProgram('relay.ts', [path, `${hostname}:${outerPort || 80}`], outside),
      startProgram('relay.ts', [String(port), path], inside),
    ]
    await Promise.all(processes.map((relay) => relay.run({})))
    const relay = { processes, endpoint: `http://127.0.0.1:${port}` }
    this.#relays.set(endpoint, relay)
    return relay.endpoint
  }
}
