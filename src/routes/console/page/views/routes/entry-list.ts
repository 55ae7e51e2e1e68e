import { useEffect, useRef, useState } from 'preact/hooks'
import type { HealthAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { Section } from '../../parts/page-head.ts'
import { EmptyState } from '../../parts/states.ts'
import type { Edit, EditedEntry, Editing } from './editing.ts'
import { EntryCard } from './entry-card.ts'
import { EntryPicker, type Picked } from './entry-picker.ts'
import { placeByKey } from './order.ts'
import type { RouteFaults } from './route-faults.ts'
import type { Surroundings } from './route-page.ts'
import { useDragOrder } from './use-drag-order.ts'
import type { Verdicts } from './verdicts.ts'

interface EntryListProps {
  readonly editing: Editing
  readonly edit: (edit: Edit) => void
  readonly faults: RouteFaults
  readonly verdicts: Verdicts
  readonly surroundings: Surroundings
  /** Name of the route. */
  readonly route: string
  /** Null: not known yet. */
  readonly health: HealthAnswer | null
  readonly readOnly: boolean
}

/** The entries in their order, which is changed by dragging or by keys. */
export function EntryList(props: EntryListProps) {
  const { editing, edit, faults, surroundings, readOnly } = props
  const { entries, strategy } = editing
  const [picking, setPicking] = useState<EditedEntry | 'new' | null>(null)
  const add = html`<${Button} icon="plus" onClick=${() => setPicking('new')}>Add entry<//>`
  return html`<${Section}
    title="Entries"
    lead=${
      strategy !== 'priority'
        ? 'Their order breaks ties.'
        : readOnly
          ? 'Tried in order.'
          : 'Tried in order. Drag an entry by its handle, or move it with the arrow keys.'
    }
    actions=${readOnly ? null : add}
  >
    ${faults.fields.get('entries')?.map((line) => html`<p class="field-error" key=${line}>${line}</p>`) ?? null}
    ${
      entries.length === 0
        ? html`<${EmptyState} title="No entries yet" action=${readOnly ? null : add}>
            Add the model to try first. Later entries are fallbacks.
          <//>`
        : html`<${Cards} ...${props} onPick=${setPicking} />`
    }
    ${
      picking === null
        ? null
        : html`<${PickEntry}
            entry=${picking}
            surroundings=${surroundings}
            edit=${edit}
            onClose=${() => setPicking(null)}
          />`
    }
  <//>`
}

function Cards(props: EntryListProps & { readonly onPick: (entry: EditedEntry) => void }) {
  const { editing, edit, verdicts, onPick } = props
  const { entries, strategy } = editing
  const [open, setOpen] = useState<readonly number[]>([])
  const { said, move, moveByKey, remove, grips } = useMoves(entries, edit)
  const startDrag = useDragOrder(move)
  const toggle = (key: number) =>
    setOpen((old) => (old.includes(key) ? old.filter((one) => one !== key) : [...old, key]))
  return html`<ol class="routes-entries" data-drag-list>
      ${entries.map(
        (entry, index) => html`<li class="routes-entry" key=${entry.key}>
          <${EntryCard}
            ...${props}
            entry=${entry}
            index=${index}
            count=${entries.length}
            strategy=${strategy}
            verdict=${verdicts.entries.get(index) ?? null}
            open=${open.includes(entry.key)}
            onToggle=${() => toggle(entry.key)}
            onRemove=${() => remove(index)}
            onChangeModel=${() => onPick(entry)}
            gripRef=${(element: HTMLElement | null) => grips.set(entry.key, element)}
            onGripDown=${(event: PointerEvent) => startDrag(event, index)}
            onGripKey=${(event: KeyboardEvent) => moveByKey(event, index)}
          />
        </li>`,
      )}
    </ol>
    <p class="hidden" aria-live="assertive">${said}</p>`
}

/** Moves and removes entries, says what became of them, and keeps the focus on a handle. */
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
  readonly surroundings: Surroundings
  readonly edit: (edit: Edit) => void
  readonly onClose: () => void
}) {
  const { entry, surroundings, edit, onClose } = props
  const [picked, setPicked] = useState<Picked | null>(entry === 'new' ? null : entry.fields)
  const submit = () => {
    if (picked === null) return
    const { provider, model, capabilities } = picked
    if (entry === 'new') edit({ do: 'add', entry: picked })
    else edit({ do: 'set', key: entry.key, change: { provider, model, capabilities } })
    onClose()
  }
  return html`<${FormDialog}
    title=${entry === 'new' ? 'Add an entry' : `Replace ${entry.fields.model}`}
    action=${entry === 'new' ? 'Add entry' : 'Change model'}
    wide
    onSubmit=${submit}
    onClose=${onClose}
    disabled=${picked === null}
  >
    <${EntryPicker} models=${surroundings.models} picked=${picked} onPick=${setPicked} />
  <//>`
}
