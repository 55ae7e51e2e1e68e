import { useEffect, useRef, useState } from 'preact/hooks'
import type { EntryFields } from '../../../../gateway/catalog/file.ts'
import type { HealthAnswer } from '../../../server/answers/health.ts'
import type { TrafficAnswer } from '../../../server/answers/routes.ts'
import { Badge } from '../../components/badge.ts'
import { Button, Icon } from '../../components/button.ts'
import { FormDialog } from '../../components/dialog.ts'
import { fitnessOfEntries, Health } from '../../components/health.ts'

import { Section } from '../../components/page-head.ts'
import { EmptyState } from '../../components/states.ts'
import { percent, plural } from '../../format.ts'
import { h } from '../../h.ts'
import { lazy } from '../../lazy.ts'
import { pathOf } from '../../paths.ts'
import type { Edit, EditedEntry, Editing, Extent, RouteIssues, ViewContext } from './editing.ts'
import { entryIssues, issueCount, landing, placeByDrag, placeByKey, shifts } from './editing.ts'
import type { EntryFormProps } from './entry-form.ts'
import { EntryPicker, type Picked } from './entry-picker.ts'
import type { Verdict, Verdicts } from './verdicts.ts'
import {
  CAPABILITY_NAMES,
  FEATURE_WORDS,
  factsOfEntry,
  PROFILE_WORDS,
  priceInWords,
  surchargesInWords,
  wordFor,
} from './words.ts'

interface EntryListProps {
  readonly editing: Editing
  readonly edit: (edit: Edit) => void
  readonly issues: RouteIssues
  readonly verdicts: Verdicts
  readonly context: ViewContext
  /** Name of the route. */
  readonly route: string
  /** Null: not known yet. */
  readonly health: HealthAnswer | null
  /** Which entries served of late; null: not known. */
  readonly traffic: TrafficAnswer | null
  readonly readOnly: boolean
}

/** The entries in their order, which is changed by dragging or by keys. */
export function EntryList(props: EntryListProps) {
  const { editing, edit, issues, context, readOnly } = props
  const { entries, strategy } = editing
  const [picking, setPicking] = useState<EditedEntry | 'new' | null>(null)
  const add = h(Button, { icon: 'plus', onClick: () => setPicking('new') }, 'Add entry')
  return h(
    Section,
    {
      title: 'Entries',
      lead:
        strategy !== 'priority'
          ? 'Their order breaks ties.'
          : readOnly
            ? 'Tried in order.'
            : 'Tried in order. Drag an entry by its handle, or move it with the arrow keys.',
      actions: readOnly ? null : add,
    },
    issues.fields.get('entries')?.map((line) => h('p', { class: 'field-error', key: line }, line)) ?? null,
    entries.length === 0
      ? h(
          EmptyState,
          { title: 'No entries yet', action: readOnly ? null : add },
          'Add the model to try first. Later entries are fallbacks.',
        )
      : h(Cards, { ...props, onPick: setPicking }),
    picking === null
      ? null
      : h(PickEntry, { entry: picking, context, edit, onClose: () => setPicking(null) }),
  )
}

function Cards(props: EntryListProps & { readonly onPick: (entry: EditedEntry) => void }) {
  const { editing, edit, verdicts, traffic, onPick } = props
  const { entries, strategy } = editing
  const [open, setOpen] = useState<readonly number[]>([])
  const { said, move, moveByKey, remove, grips } = useMoves(entries, edit)
  const startDrag = useDragOrder(move)
  const toggle = (key: number) =>
    setOpen((old) => (old.includes(key) ? old.filter((one) => one !== key) : [...old, key]))
  return [
    h(
      'ol',
      { class: 'routes-entries', 'data-drag-list': '' },
      entries.map((entry, index) =>
        h(
          'li',
          { class: 'routes-entry', key: entry.key },
          h(EntryCard, {
            ...props,
            entry,
            index,
            count: entries.length,
            strategy,
            verdict: verdicts.entries.get(index) ?? null,
            share: shareWords(entries, index, strategy, traffic),
            open: open.includes(entry.key),
            onToggle: () => toggle(entry.key),
            onRemove: () => remove(index),
            onChangeModel: () => onPick(entry),
            gripRef: (element: HTMLElement | null) => grips.set(entry.key, element),
            onGripDown: (event: PointerEvent) => startDrag(event, index),
            onGripKey: (event: KeyboardEvent) => moveByKey(event, index),
          }),
        ),
      ),
    ),
    h('p', { class: 'hidden', 'aria-live': 'assertive' }, said),
  ]
}

/** Moves and removes entries, announces it, and keeps the focus on a handle. */
function useMoves(entries: readonly EditedEntry[], edit: (edit: Edit) => void) {
  const [said, setSaid] = useState('')
  const [focus, setFocus] = useState<{ readonly key: number } | null>(null)
  const grips = useRef(new Map<number, HTMLElement | null>()).current
  useEffect(() => {
    if (focus !== null) grips.get(focus.key)?.focus()
  }, [focus])
  const nameOf = ({ fields }: EditedEntry) => `${fields.provider}/${fields.model}`
  const move = (from: number, to: number) => {
    const entry = entries[from]
    if (entry === undefined) return
    const place = `${to + 1} of ${entries.length}`
    setSaid(from === to ? `${nameOf(entry)} stays at ${place}` : `${nameOf(entry)} moved to ${place}`)
    if (from === to) return
    edit({ do: 'move', from, to })
    setFocus({ key: entry.key })
  }
  const moveByKey = (event: KeyboardEvent, from: number) => {
    const to = placeByKey(event.key, from, entries.length)
    if (to === null) return
    event.preventDefault()
    move(from, to)
  }
  const remove = (index: number) => {
    const entry = entries[index]
    if (entry === undefined) return
    edit({ do: 'remove', key: entry.key })
    setSaid(`${nameOf(entry)} removed`)
    const neighbour = entries[index + 1] ?? entries[index - 1]
    if (neighbour !== undefined) setFocus({ key: neighbour.key })
  }
  return { said, move, moveByKey, remove, grips }
}

/** Picks the model of a new entry, or another one for an entry that keeps its settings. */
function PickEntry(props: {
  readonly entry: EditedEntry | 'new'
  readonly context: ViewContext
  readonly edit: (edit: Edit) => void
  readonly onClose: () => void
}) {
  const { entry, context, edit, onClose } = props
  const [picked, setPicked] = useState<Picked | null>(entry === 'new' ? null : entry.fields)
  const submit = () => {
    if (picked === null) return
    const { provider, model, capabilities } = picked
    if (entry === 'new') edit({ do: 'add', entry: picked })
    else edit({ do: 'set', key: entry.key, change: { provider, model, capabilities } })
    onClose()
  }
  return h(
    FormDialog,
    {
      title: entry === 'new' ? 'Add an entry' : `Replace ${entry.fields.model}`,
      action: entry === 'new' ? 'Add entry' : 'Change model',
      wide: true,
      onSubmit: submit,
      onClose,
      disabled: picked === null,
    },
    h(EntryPicker, { models: context.models, picked, onPick: setPicked }),
  )
}

const EntryForm = lazy({
  title: 'The settings',
  load: async () => (await import('./entry-form.ts')).EntryForm,
})

interface EntryCardProps extends EntryFormProps {
  readonly count: number
  /** The outcome for the sample request; null: not known yet. */
  readonly verdict: Verdict | null
  /** Name of the route. */
  readonly route: string
  /** Null: not known yet. */
  readonly health: HealthAnswer | null
  /** Its part of the traffic; null: nothing to say. */
  readonly share: string | null
  readonly open: boolean
  readonly onToggle: () => void
  readonly onRemove: () => void
  readonly gripRef: (element: HTMLElement | null) => void
  readonly onGripDown: (event: PointerEvent) => void
  readonly onGripKey: (event: KeyboardEvent) => void
}

/** One entry: its model, capabilities, price and outcome, and (opened) its settings. */
function EntryCard(props: EntryCardProps) {
  const { entry, index, issues, context, readOnly, open, verdict, onRemove } = props
  const { fields } = entry
  const name = `${fields.provider}/${fields.model}`
  const id = `entry-${entry.key}`
  const unread = Object.keys(entry.unread).length
  const wrong = issueCount(issues, index) + unread
  const own = [...entryIssues(issues, index, ''), ...entryIssues(issues, index, 'model')]
  const provider = entryIssues(issues, index, 'provider')
  return h(
    'article',
    {
      class: `routes-card routes-card-${verdict?.tone ?? 'unknown'}`,
      'aria-label': `Entry ${index + 1}: ${name}`,
    },
    h(
      'div',
      { class: 'routes-card-head' },
      readOnly ? h('span', { class: 'routes-place' }, index + 1) : h(Grip, { ...props, name }),
      h(
        'div',
        { class: 'routes-card-name' },
        h('h3', null, h('span', { class: 'mono' }, fields.model)),
        h(Origin, { fields, context }),
      ),
      h(
        'div',
        { class: 'routes-card-actions' },
        wrong > 0 ? h(Badge, { tone: 'bad' }, wrong === 1 ? '1 error' : `${wrong} errors`) : null,
        h(
          Button,
          {
            kind: 'quiet',
            small: true,
            icon: open ? 'up' : 'down',
            label: `Settings of entry ${index + 1}, ${name}`,
            expanded: open,
            controls: id,
            onClick: props.onToggle,
          },
          'Settings',
        ),
        readOnly
          ? null
          : h(Button, {
              kind: 'quiet',
              small: true,
              icon: 'trash',
              label: `Remove entry ${index + 1}, ${name}`,
              onClick: onRemove,
            }),
      ),
    ),
    verdict === null && wrong > 0 ? null : h(VerdictLine, { verdict }),
    [...provider, ...own].map((line) => h('p', { class: 'field-error', role: 'alert', key: line }, line)),
    h(
      'div',
      { class: 'routes-health' },
      h(Health, { of: props.health && fitnessOfEntries(props.health, props.route, [name]) }),
      props.share === null ? null : h('span', { class: 'small quiet', 'data-share': '' }, props.share),
    ),
    h(ModelFacts, { fields, context }),
    // Text that cannot be read is in the form alone.
    h('div', { id, hidden: !open }, open || unread > 0 ? h(EntryForm, props) : null),
  )
}

/**
 * The part of the traffic that an entry is given by its weight, and the part that it served of late. Where any entry is
 * pinned, the others are given none.
 */
export function shareWords(
  entries: readonly Pick<EditedEntry, 'fields'>[],
  index: number,
  strategy: Editing['strategy'],
  traffic: TrafficAnswer | null,
): string | null {
  const own = entries[index]?.fields
  if (own === undefined) return null
  const pinned = entries.some(({ fields }) => fields.pinned === true)
  const weightOf = ({ weight = 1, pinned: isPinned }: EntryFields) =>
    typeof weight === 'number' && weight > 0 && (!pinned || isPinned === true) ? weight : 0
  const all = entries.reduce((sum, { fields }) => sum + weightOf(fields), 0)
  const given =
    strategy === 'weighted' && entries.length > 1 && all > 0
      ? `${percent(weightOf(own) / all)} of traffic`
      : null
  if (traffic === null || traffic.requests === 0) return given
  const served = traffic.entries.find(
    ({ provider, model }) => provider === own.provider && model === own.model,
  )
  const share = percent((served?.requests ?? 0) / traffic.requests)
  const seen = `${share} of ${plural(traffic.requests, 'recorded request')} in the last hour`
  return given === null ? `Served ${seen}` : `${given}, served ${seen}`
}

/** By which the entry is dragged, and moved by keys. */
function Grip(props: EntryCardProps & { readonly name: string }) {
  const { name, index, count, gripRef, onGripDown, onGripKey } = props
  return h(
    'button',
    {
      type: 'button',
      class: 'routes-grip',
      ref: gripRef,
      onPointerDown: onGripDown,
      onKeyDown: onGripKey,
      'aria-label': `Move ${name}, ${index + 1} of ${count}: arrow keys, Home and End`,
      title: 'Drag, or press the arrow keys',
    },
    h(Icon, { name: 'drag' }),
    h('span', { class: 'routes-place' }, index + 1),
  )
}

function VerdictLine({ verdict }: { readonly verdict: Verdict | null }) {
  if (verdict === null) return h('p', { class: 'routes-verdict quiet' }, '…')
  const { tone, words } = verdict
  const icon = tone === 'out' ? 'alert' : tone === 'first' ? 'check' : null
  return h(
    'p',
    { class: `routes-verdict routes-verdict-${tone}`, 'data-verdict': tone },
    icon === null ? null : h(Icon, { name: icon }),
    h('span', null, words),
  )
}

function Origin({ fields, context }: { readonly fields: EntryFields; readonly context: ViewContext }) {
  const { provider } = factsOfEntry(context.models, fields)
  const access = provider === null ? 'unknown provider' : provider.access
  const kind = provider === null || provider.kind === fields.provider ? '' : ` · ${provider.kind}`
  const word = access === 'byok' ? 'own' : access === 'platform' ? 'shared' : access
  const href = pathOf(context.workspace.id, 'providers', fields.provider)
  const name = provider === null ? fields.provider : h('a', { href }, fields.provider)
  return h('p', { class: 'small quiet' }, name, kind, ' · ', word)
}

/** Capabilities and price of its model, and its settings. */
function ModelFacts({ fields, context }: { readonly fields: EntryFields; readonly context: ViewContext }) {
  const { capabilities, features, price, translates } = factsOfEntry(context.models, fields)
  const does = [
    ...capabilities.map((name) => wordFor(CAPABILITY_NAMES, name)),
    ...(translates ? ['Translation'] : []),
  ]
  const keeps = features.map((name) => wordFor(FEATURE_WORDS, name).toLowerCase())
  const more = surchargesInWords(price)
  const settings = settingsInWords(fields)
  return h(
    'div',
    { class: 'routes-known small' },
    h(
      'p',
      null,
      does.length === 0 ? h('span', { class: 'quiet' }, 'Unknown model') : does.join(' · '),
      keeps.length === 0 ? null : h('span', { class: 'quiet' }, ' · ', keeps.join(', ')),
    ),
    h('p', null, priceInWords(price), more === '' ? null : h('span', { class: 'quiet' }, ' · ', more)),
    settings.length === 0
      ? null
      : h(
          'p',
          { class: 'row' },
          settings.map((words) => h(Badge, { key: words }, words)),
        ),
  )
}

function settingsInWords(fields: EntryFields): readonly string[] {
  const {
    weight,
    profile,
    purposes = [],
    plans = [],
    pinned,
    voices,
    retry_empty,
    accept,
    pull,
    cut_through,
    options,
  } = fields
  const voiceCount = Object.keys(voices ?? {}).length
  return [
    ...(pinned === true ? ['pinned'] : []),
    ...(profile === undefined ? [] : [wordFor(PROFILE_WORDS, profile).toLowerCase()]),
    ...(weight === undefined || weight === 1 ? [] : [`weight ${weight}`]),
    ...purposes.map((purpose) => `for ${purpose}`),
    ...(plans.length === 0 ? [] : [`plans ${plans.join(', ')}`]),
    ...(retry_empty === true ? ['retries when empty'] : []),
    ...(accept === undefined ? [] : ['checks transcripts']),
    ...(pull === true ? ['fetches the audio'] : []),
    ...(cut_through === true ? ['gets uploads as they come'] : []),
    ...(voiceCount === 0 ? [] : [voiceCount === 1 ? '1 voice' : `${voiceCount} voices`]),
    ...(Object.keys(options ?? {}).length === 0 ? [] : ['options']),
  ]
}

/** Near an edge of the window the page scrolls, pixels and pixels per frame. */
const EDGE = 72
const SCROLL = 9

interface Drag {
  readonly items: readonly HTMLElement[]
  readonly extents: readonly Extent[]
  readonly from: number
  readonly pointer: number
  readonly startY: number
  y: number
  to: number
  frame: number
}

/**
 * Reorders the children of a list by dragging their handles, with a mouse, a pen or a finger. While it lasts, elements
 * are moved on the screen only; `onMove` is called once, when it is let go. Escape, or a second finger, gives it up.
 *
 * @returns `start` for `onPointerDown` of the handle of the element at `from`
 */
function useDragOrder(onMove: (from: number, to: number) => void) {
  const drag = useRef<Drag | null>(null)
  const latest = useRef(onMove)
  latest.current = onMove

  const start = (event: PointerEvent, from: number) => {
    const handle = event.currentTarget as HTMLElement
    const list = handle.closest('[data-drag-list]')
    if (event.button !== 0 || drag.current !== null || list === null) return
    const items = [...list.children].filter((child) => child instanceof HTMLElement)
    const extents = items.map((item) => {
      const { top, height } = item.getBoundingClientRect()
      return { top: top + scrollY, height }
    })
    const y = event.clientY
    drag.current = {
      items,
      extents,
      from,
      pointer: event.pointerId,
      startY: y + scrollY,
      y,
      to: from,
      frame: 0,
    }
    handle.setPointerCapture(event.pointerId)
    items[from]?.classList.add('entry-dragged')
    list.classList.add('entries-dragging')
    follow(handle, drag, (result) => latest.current(result.from, result.to))
  }
  return start
}

function follow(handle: HTMLElement, drag: { current: Drag | null }, onMove: (drag: Drag) => void): void {
  const listening = new AbortController()
  const finish = (moved: boolean) => {
    const ended = drag.current
    if (ended === null) return
    listening.abort()
    cancelAnimationFrame(ended.frame)
    drag.current = null
    for (const item of ended.items) item.style.removeProperty('translate')
    ended.items[ended.from]?.classList.remove('entry-dragged')
    ended.items[0]?.parentElement?.classList.remove('entries-dragging')
    if (moved && ended.to !== ended.from) onMove(ended)
  }
  const { signal } = listening
  const isOurs = (event: PointerEvent) => event.pointerId === drag.current?.pointer
  const move = (event: PointerEvent) => {
    if (drag.current === null || !isOurs(event)) return
    drag.current.y = event.clientY
    showDrag(drag.current)
  }
  handle.addEventListener('pointermove', move, { signal })
  handle.addEventListener('pointerup', (event) => isOurs(event) && finish(true), { signal })
  handle.addEventListener('pointercancel', (event) => isOurs(event) && finish(false), { signal })
  handle.addEventListener('lostpointercapture', (event) => isOurs(event) && finish(false), { signal })
  addEventListener('keydown', (event) => event.key === 'Escape' && finish(false), { signal })
  const scroll = () => {
    const current = drag.current
    if (current === null) return
    const speed = current.y < EDGE ? -SCROLL : current.y > innerHeight - EDGE ? SCROLL : 0
    if (speed !== 0) {
      scrollBy(0, speed)
      showDrag(current)
    }
    current.frame = requestAnimationFrame(scroll)
  }
  scroll()
}

/** Puts every element where it would be if the drag ended now, and the dragged one under the pointer. */
function showDrag(drag: Drag): void {
  const { items, extents, from } = drag
  const dy = drag.y + scrollY - drag.startY
  drag.to = placeByDrag(extents, from, dy)
  const room = shifts(extents, from, drag.to)
  const bounds = [landing(extents, from, 0), landing(extents, from, extents.length - 1)] as const
  const held = Math.min(Math.max(dy, bounds[0] - 12), bounds[1] + 12)
  for (const [index, item] of items.entries())
    item.style.setProperty('translate', `0 ${index === from ? held : (room[index] ?? 0)}px`)
}
