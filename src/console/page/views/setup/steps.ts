import { useEffect, useState } from 'preact/hooks'
import type { NewKeyAnswer } from '../../../server/answers/keys.ts'
import type {
  KindAnswer,
  ModelAnswer,
  ModelsAnswer,
  ProviderAnswer,
  ProviderCheckAnswer,
} from '../../../server/answers/providers.ts'
import type { RequestAnswer } from '../../../server/answers/requests.ts'
import type { RouteAnswer } from '../../../server/answers/routes.ts'
import type { SetupAnswer, WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { StatusBadge } from '../../components/badge.ts'
import { Button, LinkButton } from '../../components/button.ts'
import { Code } from '../../components/copy.ts'
import { Select, TextInput } from '../../components/field.ts'
import { Spinner } from '../../components/progress.ts'
import { ErrorNote, Note } from '../../components/states.ts'
import { useForm } from '../../form.ts'
import { milliseconds } from '../../format.ts'
import { h } from '../../h.ts'
import { useAction, useEvery } from '../../load.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { useWorkspaces, workspacesChanged } from '../../session.ts'
import { bodyOf, type ProviderForm, providerForm, providerIssues } from '../providers/provider-form.ts'
import { CAPABILITY_NAMES } from '../routes/words.ts'
import { workspaceForm, workspaceId, workspaceIssues } from '../workspaces/workspace-form.ts'

/** Creates a workspace: its id follows from the name until another is typed. */
export function WorkspaceStep() {
  const { value } = useWorkspaces()
  const taken = (value ?? []).map(({ id }) => id)
  const [name, setName] = useState('')
  const [typedId, setTypedId] = useState<string | null>(null)
  const [tried, setTried] = useState(false)
  const id = typedId ?? workspaceId(name)
  const wrong = workspaceIssues({ ...workspaceForm(null), id, name }, taken).id ?? null
  const { run, busy, error } = useAction(async () => {
    await api.put<WorkspaceAnswer>(apiPath`/workspaces/${id}`, { name: name.trim() || null })
    workspacesChanged()
    navigate(pathOf(id, 'setup'), { replace: true })
  })
  const submit = (event: Event) => {
    event.preventDefault()
    setTried(true)
    // Without the list of existing ones, another might be replaced.
    if (wrong === null && value !== null) void run()
  }
  return h(
    'form',
    { class: 'stack', onSubmit: submit, novalidate: true },
    h(
      'div',
      { class: 'columns' },
      h(TextInput, {
        label: 'Name',
        value: name,
        onInput: setName,
        autofocus: true,
        maxLength: 128,
        placeholder: 'Acme Corp',
        hint: 'Shown in the console and in GET /v1/me.',
      }),
      h(TextInput, {
        label: 'ID',
        value: id,
        onInput: setTypedId,
        mono: true,
        maxLength: 40,
        placeholder: 'acme-corp',
        hint: 'Prefix of its routes and providers. Can’t be changed later.',
        error: tried || (id !== '' && wrong !== null) ? wrong : null,
      }),
    ),
    h(ErrorNote, { error, what: 'Not created' }),
    h(
      'div',
      null,
      h(Button, { type: 'submit', kind: 'primary', busy: busy || value === null }, 'Create workspace'),
    ),
  )
}

const SANDBOX = 'sandbox'

interface ProviderStepProps {
  readonly workspace: string
  readonly standing: Standing
  readonly isOperator: boolean
  readonly onDone: () => void
}

/** Either the sandbox, by one click, or an account at a provider. */
export function ProviderStep({ workspace, standing, isOperator, onDone }: ProviderStepProps) {
  const hasSandbox = standing.kinds.some(({ kind }) => kind === SANDBOX)
  const sandbox = useAction(async () => {
    await api.put(apiPath`/workspaces/${workspace}/providers/${`${workspace}.${SANDBOX}`}`, { kind: SANDBOX })
    onDone()
  })
  const others = standing.kinds.filter(
    ({ kind, base_url: address }) => kind !== SANDBOX && (isOperator || address !== null),
  )
  return h(
    'div',
    { class: 'setup-choices' },
    hasSandbox
      ? h(
          'section',
          { class: 'setup-choice' },
          h('h3', null, 'Sandbox'),
          h(
            'p',
            null,
            'Built into Larkway: no account and no cost. It speaks and transcribes Morse code, and ' +
              'answers chats, so you can try every endpoint.',
          ),
          h(ErrorNote, { error: sandbox.error, what: 'Not added' }),
          h(
            'div',
            null,
            h(
              Button,
              { kind: 'primary', onClick: () => sandbox.run(), busy: sandbox.busy },
              'Use the sandbox',
            ),
          ),
        )
      : null,
    h(
      'section',
      { class: 'setup-choice' },
      h('h3', null, 'Your own account'),
      h(Account, { workspace, kinds: others, onDone }),
    ),
  )
}

function Account(props: {
  readonly workspace: string
  readonly kinds: readonly KindAnswer[]
  readonly onDone: () => void
}) {
  const { workspace, kinds, onDone } = props
  const start = () => {
    const first = kinds.find(({ kind }) => kind === 'openai') ?? kinds[0]
    return { ...providerForm(null, first ? [first] : []), name: first?.kind ?? '' }
  }
  const [trouble, setTrouble] = useState<string | null>(null)
  const issuesOf = (fields: ProviderForm) => {
    const setsAddress = needsAddress(kinds, fields)
    return providerIssues(fields, { before: null, kinds, workspace, taken: [], setsAddress })
  }
  const save = async (fields: ProviderForm) => {
    setTrouble(null)
    const path = apiPath`/workspaces/${workspace}/providers/${`${workspace}.${fields.name}`}`
    await api.put<ProviderAnswer>(path, bodyOf(fields, { setsAddress: needsAddress(kinds, fields) }))
    const check = await api.post<ProviderCheckAnswer>(`${path}/check`)
    if (check.ok) onDone()
    else setTrouble(check.trouble ?? 'no reason given')
  }
  const form = useForm<ProviderForm>(start, issuesOf, save)
  const { fields, set, issue, tried, busy, error, bind } = form
  const submit = (event: Event) => {
    event.preventDefault()
    form.submit()
  }
  return h(
    'form',
    { class: 'stack', onSubmit: submit, novalidate: true },
    h(Select, {
      label: 'Provider type',
      value: fields.kind,
      onChange: (kind: string) => set({ kind, name: kind }),
      options: kinds.map(({ kind }) => kind),
    }),
    h(TextInput, {
      label: 'API key',
      type: 'password',
      autocomplete: 'new-password',
      ...bind('credential'),
      hint: 'Encrypted at rest. You won’t be able to see it again.',
      error: tried ? issue('credential') : null,
    }),
    needsAddress(kinds, fields)
      ? h(TextInput, {
          label: 'Base URL',
          type: 'url',
          mono: true,
          ...bind('baseUrl'),
          placeholder: 'https://speech.example.com/v1',
          error: tried ? issue('baseUrl') : null,
        })
      : null,
    h(ErrorNote, { error, what: 'Not connected' }),
    trouble === null
      ? null
      : h(
          Note,
          { tone: 'bad' },
          h('p', null, 'Saved, but couldn’t connect: ', trouble, '. Check the API key, then try again.'),
          h(Button, { small: true, onClick: onDone }, 'Continue anyway'),
        ),
    h('div', null, h(Button, { type: 'submit', busy }, 'Connect')),
  )
}

/** An address that was typed for another type is not shown: it is neither checked nor sent. */
function needsAddress(kinds: readonly KindAnswer[], fields: ProviderForm): boolean {
  return kinds.find(({ kind }) => kind === fields.kind)?.base_url === null
}

const NAME = 'main'

/** Publishes a route of one model, and creates the app that uses it. */
export function RouteStep(props: {
  readonly workspace: string
  readonly standing: Standing
  readonly onDone: () => void
}) {
  const { workspace, standing, onDone } = props
  const { setup, models } = standing
  const offered = offeredOf(models, setup.providers)
  const [chosen, setChosen] = useState<string | null>(null)
  const value = chosen ?? offered.find(({ model }) => model.capabilities.includes('audio_input'))?.name
  const picked = offered.find(({ name }) => name === value) ?? offered[0]
  const { run, busy, error } = useAction(async () => {
    const route = setup.route?.name ?? `${workspace}.${NAME}`
    const place = apiPath`/workspaces/${workspace}`
    if (setup.route === null && picked !== undefined) {
      const { provider, model } = picked
      const fields = { workspace, entries: [{ provider, model: model.model }] }
      const path = place + apiPath`/routes/${route}`
      const { draft } = await api.put<RouteAnswer>(`${path}/draft`, { fields, revision: null })
      await api.post(`${path}/publish`, { revision: draft?.revision })
    }
    await api.put(place + apiPath`/apps/${NAME}`, { route })
    onDone()
  })
  if (setup.route === null && picked === undefined)
    return h(UnknownModels, { workspace, providers: setup.providers })
  return h(
    'div',
    { class: 'stack' },
    setup.route === null
      ? h(Select, {
          label: 'Model',
          value: picked?.name ?? '',
          onChange: setChosen,
          options: offered.map(({ name, model }) => ({
            value: name,
            label: `${name} (${abilities(model)})`,
          })),
          hint: [
            'Publishes the route ',
            h('code', null, workspace, '.', NAME),
            ' with this model, and creates the app ',
            h('code', null, NAME),
            ' that uses it. Add fallback models later.',
          ],
        })
      : h(
          'p',
          null,
          'Creates the app ',
          h('code', null, NAME),
          ', which uses the route ',
          h('code', null, setup.route.name),
          '.',
        ),
    h(ErrorNote, { error, what: 'Not published' }),
    h(
      'div',
      null,
      h(
        Button,
        { kind: 'primary', onClick: () => run(), busy },
        setup.route === null ? 'Publish route' : 'Create app',
      ),
    ),
  )
}

function UnknownModels(props: { readonly workspace: string; readonly providers: readonly string[] }) {
  const { workspace, providers } = props
  return [
    h(
      'p',
      null,
      'The models of ',
      providers.join(', '),
      ' aren’t in the built-in table, so their capabilities must be set in the route builder.',
    ),
    h('div', null, h(LinkButton, { kind: 'primary', href: pathOf(workspace, 'routes') }, 'Create a route')),
  ]
}

interface Offered {
  readonly name: string
  readonly provider: string
  readonly model: ModelAnswer
}

/** In the order of the providers: those of the workspace come first. */
function offeredOf({ providers }: ModelsAnswer, order: readonly string[]): readonly Offered[] {
  return providers
    .toSorted((one, other) => order.indexOf(one.name) - order.indexOf(other.name))
    .flatMap(({ name: provider, models }) =>
      models.map((model) => ({ name: `${provider}/${model.model}`, provider, model })),
    )
}

const NAMED_MAX = 3

function abilities({ capabilities }: ModelAnswer): string {
  const names = capabilities.map((one) => CAPABILITY_NAMES[one])
  const rest = names.length - NAMED_MAX
  return `${names.slice(0, NAMED_MAX).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
}

/** Creates a key of the app. It is shown in the next step, and never again. */
export function KeyStep(props: {
  readonly workspace: string
  readonly standing: Standing
  readonly onMade: (key: NewKeyAnswer) => void
}) {
  const { workspace, standing, onMade } = props
  const { app } = standing.setup
  const [name, setName] = useState('first-key')
  const { run, busy, error } = useAction(async () => {
    const path = apiPath`/workspaces/${workspace}/keys`
    onMade(await api.post<NewKeyAnswer>(path, { name: name.trim() || 'first-key', app }))
  })
  const submit = (event: Event) => {
    event.preventDefault()
    void run()
  }
  return h(
    'form',
    { class: 'stack', onSubmit: submit, novalidate: true },
    h(TextInput, {
      label: 'Key name',
      value: name,
      onInput: setName,
      maxLength: 128,
      width: 'medium',
      hint: `Authenticates the app ${app ?? ''}.`,
    }),
    h(ErrorNote, { error, what: 'Not created' }),
    h('div', null, h(Button, { type: 'submit', kind: 'primary', busy }, 'Create key')),
  )
}

const EVERY_MS = 1_500
/** Other nodes learn of a new key within that time. */
const KNOWN_WITHIN_MS = 5_000
const AGAIN_AFTER_MS = 500

interface CallStepProps {
  readonly workspace: string
  readonly standing: Standing
  readonly made: NewKeyAnswer | null
  readonly onMade: (key: NewKeyAnswer) => void
}

/** The first request, as a command or sent from here, and its outcome. */
export function CallStep({ workspace, standing, made, onMade }: CallStepProps) {
  const { route } = standing.setup
  if (route === null) return null
  const { curl, send } = firstCallOf(route, made?.key ?? null)
  return h(
    'div',
    { class: 'stack' },
    made === null
      ? h(
          'p',
          null,
          'Set ',
          h('code', null, 'LARKWAY_API_KEY'),
          ' to a key of this workspace, or create another one: keys are shown once.',
        )
      : [
          h(Note, { tone: 'warn' }, 'Copy this key now. You won’t see it again.'),
          h(Code, { title: 'API key', text: made.key, wrap: true }),
        ],
    h(Code, { title: 'curl', text: curl, wrap: true }),
    made === null
      ? h(
          'details',
          { class: 'more' },
          h('summary', null, 'Create another key'),
          h(KeyStep, { workspace, standing, onMade }),
        )
      : h(Sending, { workspace, made, send }),
  )
}

function Sending(props: {
  readonly workspace: string
  readonly made: NewKeyAnswer
  readonly send: (key: string) => Promise<Response>
}) {
  const { workspace, made, send } = props
  const [answer, setAnswer] = useState<{ readonly status: number; readonly text: string } | null>(null)
  const { run, busy, error } = useAction(async () => {
    const untilMs = Date.now() + KNOWN_WITHIN_MS
    let response = await send(made.key)
    while (response.status === 401 && Date.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER_MS))
      response = await send(made.key)
    }
    setAnswer({ status: response.status, text: pretty(await response.text()) })
  })
  return [
    h(
      'div',
      { class: 'row' },
      h(Button, { onClick: () => run(), busy }, 'Send it from here'),
      h(Arrival, { workspace, keyId: made.id }),
    ),
    h(ErrorNote, { error, what: 'Not sent' }),
    answer === null
      ? null
      : h(Code, { title: `Answer, HTTP ${answer.status}`, text: answer.text, wrap: true, tall: true }),
  ]
}

/** Waits for the request, wherever it is sent from. */
function Arrival({ workspace, keyId }: { readonly workspace: string; readonly keyId: string }) {
  const [request, setRequest] = useState<RequestAnswer | null>(null)
  const look = async () => {
    const query = queryOf({ key_id: keyId, limit: 1 })
    const path = apiPath`/workspaces/${workspace}/requests`
    const { requests } = await api.get<{ requests: readonly RequestAnswer[] }>(path + query)
    setRequest(requests[0] ?? null)
  }
  // A failed request is repeated soon.
  const again = () => void look().catch(() => {})
  useEvery(EVERY_MS, again)
  useEffect(again, [])
  if (request === null) return h(Spinner, { label: 'Waiting for the first request' })
  const by = request.attempts.at(-1)
  return [
    h(
      'p',
      { class: 'setup-arrived', role: 'status' },
      h(StatusBadge, { status: request.status ?? request.error ?? 'ok' }),
      h('span', null, 'Request received: ', h('span', { class: 'mono' }, request.method, ' ', request.path)),
      h(
        'span',
        { class: 'quiet' },
        by === undefined ? '' : `${by.provider}/${by.model}, `,
        milliseconds(request.milliseconds),
      ),
    ),
    h(LinkButton, { small: true, href: pathOf(workspace, 'requests', request.id) }, 'View request'),
  ]
}

/** Indented JSON with long values cut: an answer may hold audio. */
function pretty(text: string): string {
  try {
    return JSON.stringify(
      JSON.parse(text),
      (_, value) => (isLong(value) ? `${value.slice(0, 80)}…` : value),
      2,
    )
  } catch {
    return text.slice(0, 20_000)
  }
}

function isLong(value: unknown): value is string {
  return typeof value === 'string' && value.length > 400
}

/** A request that works unchanged with the route's capabilities. */
interface FirstCall {
  readonly curl: string
  /** Makes the same request from the page. */
  readonly send: (key: string) => Promise<Response>
}

const SAMPLE = '/console/assets/hello.wav'
const BEARER = '-H "Authorization: Bearer $LARKWAY_API_KEY"'

/**
 * Audio for the sandbox, which hears Morse code; a text for a model of another provider, whose answer to Morse code is
 * not known; and audio again for models that do nothing else.
 *
 * @param key shown in the command; null: whoever runs it has one
 */
function firstCallOf(
  { capabilities, kind }: NonNullable<SetupAnswer['route']>,
  key: string | null,
): FirstCall {
  const { origin } = location
  const exported = key === null ? [] : [`export LARKWAY_API_KEY=${key}`]
  const can = (name: (typeof capabilities)[number]) => capabilities.includes(name)
  const json = (path: string, body: object, ...more: readonly string[]): FirstCall => ({
    curl: [
      ...exported,
      [
        `curl -sS --fail-with-body ${origin}${path}`,
        BEARER,
        "-H 'Content-Type: application/json'",
        `-d '${JSON.stringify(body)}'`,
        ...more,
      ].join(' \\\n  '),
    ].join('\n'),
    send: (bearer) =>
      fetch(path, {
        method: 'POST',
        credentials: 'omit',
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
  })
  if (can('text') && kind !== 'sandbox')
    return json('/v1/chat', { messages: [{ role: 'user', content: 'Say hello in one sentence.' }] })
  if (can('audio_input') || capabilities.length === 0)
    return {
      curl: [
        ...exported,
        `curl -sSO ${origin}${SAMPLE}`,
        [`curl -sS --fail-with-body ${origin}/v1/transcription`, BEARER, '-F file=@hello.wav'].join(
          ' \\\n  ',
        ),
      ].join('\n'),
      send: async (bearer) => {
        const body = new FormData()
        body.append('file', await (await fetch(SAMPLE)).blob(), 'hello.wav')
        return fetch('/v1/transcription', {
          method: 'POST',
          credentials: 'omit',
          headers: { authorization: `Bearer ${bearer}` },
          body,
        })
      },
    }
  if (can('audio_output')) return json('/v1/speech', { input: 'hello world' })
  if (can('embeddings')) return json('/v1/embeddings', { input: 'hello world' })
  return json('/v1/image', { prompt: 'a lark above a field at dawn' })
}

/** State that decides the steps. */
export interface Standing {
  readonly setup: SetupAnswer
  readonly models: ModelsAnswer
  readonly kinds: readonly KindAnswer[]
}
