import { useState } from 'preact/hooks'
import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { type ApiError, toApiError } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Checkbox } from '../../components/choice.ts'
import { Select, TextInput } from '../../components/field.ts'
import { Section } from '../../components/page-head.ts'
import { Note } from '../../components/states.ts'
import { milliseconds, number } from '../../format.ts'
import { h } from '../../h.ts'
import { pathOf } from '../../paths.ts'
import { type AppKeys, CallFailure, callV1 } from './calls.ts'
import type { ChatOptions, ChatReply, ChatSide } from './chat-stream.ts'
import { CHAT_PATH, chatBody, chunksOf, readChat } from './chat-stream.ts'
import { Options, Selectors } from './options.ts'
import { chatSnippets, SnippetsView } from './snippets.ts'
import { ResultFacts, useOneRun } from './transcript.ts'

type Stage =
  | { readonly at: 'waiting' }
  | { readonly at: 'writing'; readonly text: string; readonly firstMs: number }
  | { readonly at: 'stopped'; readonly text: string }
  | { readonly at: 'failed'; readonly text: string; readonly error: ApiError }
  | {
      readonly at: 'done'
      readonly reply: ChatReply
      readonly firstMs: number | null
      readonly tookMs: number
    }

/** The settings of the question; the form may have changed since. */
interface Asked {
  readonly side: ChatSide
  /** Null: it is not known. */
  readonly route: string | null
}

type Run = { readonly at: 'idle' } | (Stage & { readonly asked: Asked })

/** How far it is, for who does not see it; failures speak for themselves. */
const SAID: Readonly<Record<Run['at'], string>> = {
  idle: '',
  waiting: 'Waiting for provider…',
  writing: 'Writing…',
  stopped: 'Stopped',
  failed: '',
  done: 'Done',
}

const PLAIN: ChatOptions = { system: '', user: '', temperature: '', maxTokens: '' }

/** Chat: messages and options, and the streamed answers of one caller or of two, side by side. */
export function Chat(props: {
  readonly about: WorkspaceAnswer
  readonly app: string
  readonly keys: AppKeys
  readonly purposes: readonly string[]
}) {
  const { about, app, keys, purposes } = props
  const [options, setOptions] = useState(PLAIN)
  const [first, setFirst] = useState<Selected>({ purpose: '', profile: null })
  const [second, setSecond] = useState<ChatSide | null>(null)
  const change = (fields: Partial<ChatOptions>) => setOptions((old) => ({ ...old, ...fields }))
  const sides: readonly ChatSide[] = [{ app, ...first }, ...(second === null ? [] : [second])]
  const left = useChat(keys)
  const right = useChat(keys)
  // Both, also when only one is compared any more: the other may still be writing.
  const runs = [left, right]
  const busy = runs.some(({ run }) => run.at === 'waiting' || run.at === 'writing')
  const empty = options.user.trim() === ''
  const send = () => {
    for (const [index, side] of sides.entries())
      void runs[index]?.ask(options, { side, route: routeOf(about, side) })
  }
  const stop = () => {
    for (const run of runs) run.stop()
  }
  return h(
    'div',
    { class: 'play' },
    h('div', { class: 'play-source stack' }, h(Messages, { options, onChange: change })),
    h(
      Options,
      null,
      h(
        'div',
        { class: 'stack' },
        h(Sampling, { options, onChange: change }),
        h(Sides, { about, app, purposes, first, second, onFirst: setFirst, onSecond: setSecond }),
      ),
    ),
    h(
      'div',
      { class: 'play-run stack' },
      h(
        'div',
        { class: 'actions' },
        h(
          Button,
          { kind: 'primary', icon: 'play', disabled: empty || app === '', busy, onClick: send },
          'Send',
        ),
        busy ? h(Button, { icon: 'stop', onClick: stop }, 'Stop') : null,
        empty ? h('span', { class: 'small quiet' }, 'Enter a message first.') : null,
      ),
      h(
        'div',
        { class: sides.length > 1 ? 'play-pair' : 'stack' },
        sides.map((side, index) =>
          h(Answer, {
            key: index,
            about,
            side,
            run: runs[index]?.run ?? { at: 'idle' },
            alone: sides.length === 1,
          }),
        ),
      ),
      h(SnippetsView, { snippets: chatSnippets(location.origin, options, first) }),
    ),
  )
}

type Selected = Omit<ChatSide, 'app'>

/** Callers: the app chosen above and, beside it, another one, or the same by another purpose or profile. */
function Sides(props: {
  readonly about: WorkspaceAnswer
  readonly app: string
  readonly purposes: readonly string[]
  readonly first: Selected
  readonly second: ChatSide | null
  readonly onFirst: (side: Selected) => void
  readonly onSecond: (side: ChatSide | null) => void
}) {
  const { about, app, purposes, first, second, onFirst, onSecond } = props
  const apps = about.apps.map(({ id }) => id)
  const other = apps.find((id) => id !== app) ?? app
  return [
    h(
      'fieldset',
      { class: 'stack play-side' },
      h('legend', null, second === null ? 'Answer' : 'Left'),
      h(Selectors, { ...first, purposes, onChange: (fields) => onFirst({ ...first, ...fields }) }),
    ),
    h(Checkbox, {
      label: 'Compare side by side',
      hint: 'Sends the same messages twice. Another app, purpose or profile reaches another route or entry.',
      checked: second !== null,
      onChange: (on: boolean) => onSecond(on ? { app: other, purpose: '', profile: null } : null),
    }),
    second === null
      ? null
      : h(
          'fieldset',
          { class: 'stack play-side' },
          h('legend', null, 'Right'),
          h(Select, {
            label: 'App',
            value: second.app,
            options: apps,
            onChange: (id: string) => onSecond({ ...second, app: id }),
          }),
          h(Selectors, {
            ...second,
            purposes,
            onChange: (fields) => onSecond({ ...second, ...fields }),
          }),
        ),
  ]
}

interface FormProps {
  readonly options: ChatOptions
  readonly onChange: (fields: Partial<ChatOptions>) => void
}

function Messages({ options, onChange }: FormProps) {
  return [
    h(TextInput, {
      label: 'System message',
      optional: true,
      rows: 2,
      value: options.system,
      onInput: (system: string) => onChange({ system }),
    }),
    h(TextInput, {
      label: 'Message',
      rows: 5,
      value: options.user,
      onInput: (user: string) => onChange({ user }),
    }),
  ]
}

function Sampling({ options, onChange }: FormProps) {
  return [
    h(TextInput, {
      label: 'Temperature',
      optional: true,
      hint: '0 to 2.',
      inputMode: 'decimal',
      width: 'short',
      value: options.temperature,
      onInput: (temperature: string) => onChange({ temperature }),
    }),
    h(TextInput, {
      label: 'Max tokens',
      optional: true,
      inputMode: 'numeric',
      width: 'short',
      value: options.maxTokens,
      onInput: (maxTokens: string) => onChange({ maxTokens }),
    }),
  ]
}

function Answer(props: {
  readonly about: WorkspaceAnswer
  /** As it is chosen, for the next answer. */
  readonly side: ChatSide
  readonly run: Run
  readonly alone: boolean
}) {
  const { about, run, alone } = props
  const { side, route } =
    run.at === 'idle' ? { side: props.side, route: routeOf(about, props.side) } : run.asked
  const where = [
    side.app,
    ...(side.purpose === '' ? [] : [side.purpose]),
    ...(side.profile === null ? [] : [side.profile]),
  ].join(' · ')
  if (alone && run.at === 'idle') return null
  const text = run.at === 'done' ? run.reply.text : 'text' in run ? run.text : ''
  return h(
    Section,
    {
      title: alone ? 'Answer' : where,
      lead:
        route === null
          ? null
          : ['Route ', h('a', { class: 'mono', href: pathOf(about.id, 'routes', route) }, route)],
    },
    h('p', { class: 'hidden', role: 'status' }, SAID[run.at]),
    run.at === 'waiting' ? h('p', { class: 'quiet', 'aria-hidden': 'true' }, SAID.waiting) : null,
    text === ''
      ? null
      : h(
          'div',
          { class: 'play-answer', tabindex: 0, role: 'region', 'aria-label': `Answer of ${where}` },
          text,
        ),
    run.at === 'writing'
      ? h('p', { class: 'small quiet' }, 'First token after ', milliseconds(run.firstMs))
      : null,
    run.at === 'stopped'
      ? h(Note, null, 'Stopped. What the provider had written by then may be charged.')
      : null,
    run.at === 'failed' ? h(CallFailure, { workspace: about.id, error: run.error }) : null,
    run.at === 'done' && run.reply.facts !== null
      ? h(ResultFacts, {
          workspace: about.id,
          facts: run.reply.facts,
          tookMs: run.tookMs,
          more: speedOf(run),
        })
      : null,
  )
}

function speedOf({ reply, firstMs, tookMs }: Extract<Run, { readonly at: 'done' }>) {
  const tokens = reply.facts?.usage.find(([name]) => name === 'output_tokens')?.[1] ?? 0
  const writingMs = firstMs === null ? 0 : tookMs - firstMs
  return [
    ...(firstMs === null ? [] : [['First token after', milliseconds(firstMs)] as const]),
    // A few tokens, or an answer that came at once, give no rate.
    ...(tokens > 1 && writingMs > 50
      ? [['Tokens per second', number(((tokens - 1) / writingMs) * 1000, 1)] as const]
      : []),
    ...(reply.finish === null || reply.finish === 'stop' ? [] : [['Ended by', reply.finish] as const]),
  ]
}

/** The route that an app sends chats to, by the purpose; null: it is not known. */
function routeOf({ apps }: WorkspaceAnswer, { app, purpose }: ChatSide): string | null {
  const fields = apps.find(({ id }) => id === app)?.fields
  if (fields === undefined) return null
  const bound = Object.hasOwn(fields.purposes ?? {}, purpose) ? fields.purposes?.[purpose] : undefined
  return bound ?? fields.capability_routes?.text ?? fields.route
}

/** One chat at a time. */
function useChat(keys: AppKeys) {
  const { run, setRun, begin, end } = useOneRun<Run>({ at: 'idle' })
  const ask = async (options: ChatOptions, asked: Asked) => {
    const { side } = asked
    const { signal, show: showRun } = begin()
    const show = (stage: Stage) => showRun({ ...stage, asked })
    show({ at: 'waiting' })
    let [beganMs, firstMs, text] = [performance.now(), null as number | null, '']
    const since = () => performance.now() - beganMs
    try {
      const answer = await callV1(keys, side.app, CHAT_PATH, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
        body: JSON.stringify(chatBody(options, side)),
        signal,
        onSend: () => {
          beganMs = performance.now()
        },
      })
      const reply = await readChat(chunksOf(answer.body), (all) => {
        text = all
        firstMs ??= since()
        show({ at: 'writing', text, firstMs })
      })
      show({ at: 'done', reply, firstMs, tookMs: since() })
    } catch (thrown) {
      show({ at: 'failed', text, error: toApiError(thrown) })
    }
  }
  const stop = () => {
    if (!end()) return
    setRun((old) =>
      old.at === 'waiting' || old.at === 'writing'
        ? { at: 'stopped', text: 'text' in old ? old.text : '', asked: old.asked }
        : old,
    )
  }
  return { run, ask, stop }
}
