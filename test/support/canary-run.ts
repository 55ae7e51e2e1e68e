import { type Told, tell } from './canary-attacks.ts'
import { type Ask, CASES, type Found, type Songs } from './canary-cases.ts'
import type { Caller, CanaryRig } from './canary-rig.ts'
import { keptBy } from './canary-stores.ts'
import { type Canaries, type CanaryKind, type Finding, PIECE, singingWav } from './canary-values.ts'

const ALL: readonly CanaryKind[] = ['secret', 'content', 'foreign']
/** What a good answer may not say. */
const NOT_ANSWERED: readonly CanaryKind[] = ['secret', 'foreign']

/** Requests that are asked at a time. */
const AT_ONCE = 16

/** Sends requests, looks at every byte that comes out of the product anywhere, and keeps count of what happened. */
export class CanaryRun {
  /** Where a canary sang that had to be silent. */
  readonly faults = new Set<string>()
  /** How often there was each status and code. */
  readonly outcomes = new Map<string, number>()
  readonly songs: Songs
  readonly found = {
    jobId: 'tj_0000000000000000000000000000',
    resultPath: null as string | null,
    session: { cookie: '', csrf: '' },
  }
  /** For headers and paths, which nobody keeps. */
  readonly noise: string
  readonly #canaries: Canaries
  readonly #rig: CanaryRig

  constructor(canaries: Canaries, rig: CanaryRig) {
    this.#canaries = canaries
    this.#rig = rig
    this.noise = canaries.make('header or path', 'foreign')
    const query = `token=${canaries.make('query of audio.url', 'content')}&sig=1`
    this.songs = {
      prompt: canaries.make('prompt', 'content'),
      filename: `${canaries.make('file name', 'content')}.wav`,
      field: canaries.make('field of a request', 'content'),
      label: canaries.make('label of a purpose', 'content'),
      wav: singingWav(canaries.make('sound of the caller', 'content')),
      audioUrl: `https://good.example/audio?${query}`,
      credential: canaries.make('credential of a provider', 'secret'),
      hookUrl: `https://hooks.example/hook?token=${canaries.make('query of the webhook', 'content')}`,
    }
  }

  /** The good requests of every path, or of those that match. */
  goods(pattern = /./): Ask[] {
    const found: Found = this.found
    const cases = Object.entries(CASES).filter(([name]) => pattern.test(name))
    return cases.flatMap(([, make]) => make(this.songs, found))
  }

  /** Has the good requests to the console be those of somebody who has signed in. */
  async signIn(): Promise<void> {
    const key = this.#rig.authorization.all.replace('Bearer ', '')
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ key })
    const told = await this.ask({ method: 'POST', path: '/console/api/session', headers, body })
    const cookie = /^set-cookie: (lk_console=([\w-]+));/im.exec(told?.headers ?? '')
    const csrf = /"csrf_token":"([\w-]+)"/.exec(told?.body.toString() ?? '')?.[1]
    if (cookie === null || csrf === undefined) throw new Error(`signing in: ${told?.status} ${told?.body}`)
    this.found.session = { cookie: cookie[1] ?? '', csrf }
    this.#canaries.watch('token of a session', 'secret', cookie[2] ?? '')
  }

  /** @returns the answers, in order; null where there was none */
  async askAll(
    asks: readonly Ask[],
    caller: Caller | null = 'all',
    atOnce = AT_ONCE,
  ): Promise<(Told | null)[]> {
    const told: (Told | null)[] = []
    let next = 0
    const one = async (): Promise<void> => {
      for (let at = next++; at < asks.length; at = next++) told[at] = await this.ask(asks[at]!, caller)
    }
    await Promise.all(Array.from({ length: atOnce }, one))
    return told
  }

  /** @param caller null: the request says by itself who asks */
  async ask(ask: Ask, caller: Caller | null = 'all'): Promise<Told | null> {
    const authorization = caller === null ? {} : { authorization: this.#rig.authorization[caller] }
    const told = await tell(this.#rig.port, { ...ask, headers: { ...authorization, ...ask.headers } })
    if (told !== null) this.#judge(`${ask.method} ${ask.path.replace(/[?].*/, '')}`, told)
    return told
  }

  /** What came back without having been asked in HTTP. */
  judgeRaw(bytes: Buffer): void {
    this.#report('an answer to no request', this.#canaries.find(bytes), ALL)
    this.#count(/^HTTP\/1\.1 (\d+)/.exec(bytes.toString('latin1'))?.[1] ?? 'none')
  }

  #judge(what: string, { status, headers, body }: Told): void {
    const text = body.toString()
    const code = status < 400 ? undefined : /"error":\{"code":"([A-Z_]+)"/.exec(text)?.[1]
    this.#count(`${status}${code === undefined ? '' : ` ${code}`}`)
    // Facts that go into headers where the answer has no place for them: the caller's label, and names of its fields.
    const said = headers.replace(/^x-lk-(?:requested-purpose|warnings): .*$/gim, '')
    this.#report(`${what}: header of ${status}`, this.#canaries.find(said), ALL)
    this.#report(`${what}: body of ${status}`, this.#canaries.find(body), status < 400 ? NOT_ANSWERED : ALL)
    for (const line of text.split('\n').filter((event) => /^data: .*"error":/.test(event))) {
      this.#report(`${what}: event of an error`, this.#canaries.find(line), ALL)
    }
    // The documentation has examples of both.
    if (/\/(?:workspaces?|v1)\//.test(what)) this.#learn(text)
  }

  /** Answers give out what is nobody else's: from now on it is looked for, too. */
  #learn(text: string): void {
    const secret = /"signing_secret":"(whsec_[^"]+)"/.exec(text)?.[1]
    if (secret !== undefined) this.#canaries.watch('secret of the webhook', 'secret', secret)
    const key = /"key":"(lk_live_\w+)"/.exec(text)?.[1]
    if (key !== undefined) this.#canaries.watch('key made in the console', 'secret', key)
    const url = /"(?:result_)?url":"([^"]*(?:\/results\/|X-Amz-Signature=)[^"]*)"/.exec(text)?.[1]
    if (url === undefined) return
    const path = URL.parse(url, 'http://a')
    if (path?.pathname.startsWith('/results/')) this.found.resultPath = path.pathname
    const opens = path?.searchParams.get('X-Amz-Signature') ?? path?.pathname.split('.')[1] ?? ''
    this.#canaries.watch('signed URL', 'content', opens)
  }

  #count(outcome: string): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1)
  }

  #report(where: string, findings: readonly Finding[], forbidden: readonly CanaryKind[]): void {
    for (const { name, kind, around } of findings) {
      if (forbidden.includes(kind)) this.faults.add(`${where}: ${name}: ${JSON.stringify(around)}`)
    }
  }

  /** @returns how many figures the processes that run tell */
  async judgeMetrics(): Promise<number> {
    const texts = await this.#rig.metrics()
    for (const text of texts) this.#report('metrics', this.#canaries.find(text), ALL)
    return texts.join('').split('\n').length
  }

  /** What the processes have written, and the traces. @returns how many bytes of the latter there are */
  judgeOutputs(): number {
    for (const [index, { output }] of this.#rig.processes.entries()) {
      this.#report(`output of process ${index}`, this.#canaries.find(output()), ALL)
    }
    const traces = this.#rig.traces()
    this.#report('traces', this.#canaries.find(traces), ALL)
    return traces.length
  }

  /**
   * No name of anything sings, and of what is kept no secret does, nor what nobody has a use for.
   *
   * @returns how many names there are, and values that sing
   */
  async judgeStores(): Promise<{ names: number; singing: number }> {
    const { names, values, pages } = await keptBy(this.#rig)
    for (const name of names) this.#report('a name in the stores', this.#canaries.find(name), ALL)
    const findings = values.map((value) => this.#canaries.find(value))
    for (const those of findings) this.#report('a value in the stores', those, NOT_ANSWERED)
    const inPages = pages.flatMap((page) => this.#canaries.find(page)).filter(({ name }) => name !== PIECE)
    this.#report('a page of the state', inPages, NOT_ANSWERED)
    return { names: names.length, singing: findings.filter(({ length }) => length > 0).length }
  }
}
