import type { Capability } from '../../../../contracts/calls.ts'
import type { AppFields, PurposeFields } from '../../../../gateway/catalog/file.ts'
import type {
  AppAnswer,
  AppsAnswer,
  PurposeAnswer,
  WorkspaceAnswer,
} from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { Checkbox } from '../../components/choice.ts'
import { FormDialog } from '../../components/dialog.ts'
import { type Option, Select, TextInput, type TextInputProps } from '../../components/field.ts'
import { toast } from '../../components/toasts.ts'
import { useForm } from '../../form.ts'
import { h } from '../../h.ts'
import { apiPath } from '../../paths.ts'
import { CAPABILITY_NAMES, members } from '../routes/words.ts'

/** An app while it is edited; an empty route is none. */
interface AppForm {
  readonly id: string
  readonly route: string
  readonly capabilityRoutes: Readonly<Partial<Record<Capability, string>>>
  readonly purposes: Readonly<Record<string, string>>
  /** Fields that the form does not show, which stay as they are. */
  readonly others: Omit<AppFields, 'route' | 'capability_routes' | 'purposes'>
}

export function appForm(id: string, fields: AppFields | null): AppForm {
  const { route = '', capability_routes: capabilityRoutes = {}, purposes = {}, ...others } = fields ?? {}
  return { id, route, capabilityRoutes, purposes, others }
}

/** The fields to save, without empty routes. */
export function appFields({ route, capabilityRoutes, purposes, others }: AppForm): AppFields {
  const [capabilities, bindings] = [leading(capabilityRoutes), leading(purposes)]
  return {
    ...others,
    route,
    ...(capabilities === null ? {} : { capability_routes: capabilities }),
    ...(bindings === null ? {} : { purposes: bindings }),
  }
}

/** Names of apps and purposes, as the catalog takes them. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** Checks a new name; null: it is valid. */
export function newNameIssue(name: string, taken: readonly string[]): string | null {
  if (name === '') return 'Enter a name.'
  if (!NAME.test(name))
    return 'Use up to 64 letters, digits, ".", "_" and "-", starting with a letter or digit.'
  return taken.includes(name) ? `"${name}" already exists.` : null
}

function leading(routes: Readonly<Record<string, string | undefined>>): Record<string, string> | null {
  const set = Object.entries(routes).flatMap(([name, route]) => (route ? [[name, route] as const] : []))
  return set.length === 0 ? null : Object.fromEntries(set)
}

/** Makes an app, or changes where it leads. */
export function EditApp(props: {
  readonly known: Known
  /** Null: a new one. */
  readonly before: AppAnswer | null
  readonly onSaved: (workspace: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { known, before, onSaved, onClose } = props
  const { workspace, routes: published } = known
  const start = () => {
    const form = appForm(before?.id ?? '', before?.fields ?? null)
    return form.route === '' && published.length === 1 ? { ...form, route: published[0] ?? '' } : form
  }
  const taken = workspace.apps.map(({ id }) => id)
  const check = ({ id, route }: AppForm) => ({
    id: before === null ? newNameIssue(id, taken) : null,
    route: route === '' ? 'Choose a route.' : null,
  })
  const save = async (fields: AppForm) => {
    const path = apiPath`/workspaces/${workspace.id}/apps/${fields.id}`
    onSaved(await api.put<WorkspaceAnswer>(path, appFields(fields)))
    toast(`App ${fields.id} ${before === null ? 'created' : 'saved'}`)
    onClose()
  }
  const { fields: form, set, submit, busy, error, bind } = useForm(start, check, save)
  return h(
    FormDialog,
    {
      title: before === null ? 'Create app' : `Edit app ${before.id}`,
      action: before === null ? 'Create app' : 'Save',
      onSubmit: submit,
      onClose,
      busy,
      error,
      what: 'Not saved',
    },
    h(
      'div',
      { class: 'stack' },
      before === null
        ? h(TextInput, {
            label: 'ID',
            ...bind('id'),
            mono: true,
            autofocus: true,
            required: true,
            maxLength: 64,
            placeholder: 'web',
            hint: 'Used by keys and in logs. Can’t be changed later.',
          })
        : null,
      h(Select, {
        label: 'Route',
        ...bind('route'),
        options: routeOptions('Choose a route', published, form.route),
        hint: 'Handles its requests unless a route below applies.',
      }),
      h(Others, { form, set, published, known }),
    ),
  )
}

function Others(props: {
  readonly form: AppForm
  readonly set: (change: Partial<AppForm>) => void
  readonly published: readonly string[]
  readonly known: Known
}) {
  const { form, set, published, known } = props
  const { capabilityRoutes, purposes } = form
  const labels = [
    ...new Set([...known.workspace.purposes.map(({ purpose }) => purpose), ...Object.keys(purposes)]),
  ]
  return [
    h(
      'details',
      { class: 'more', open: Object.keys(purposes).length > 0 },
      h('summary', null, 'Routes by purpose'),
      h(
        'div',
        { class: 'stack' },
        labels.length === 0
          ? h('p', { class: 'small quiet' }, 'No purposes yet. Create them under Apps.')
          : labels.map((label) =>
              h(Select, {
                key: label,
                label,
                value: purposes[label] ?? '',
                onChange: (route: string) => set({ purposes: { ...purposes, [label]: route } }),
                options: routeOptions('Default route', published, purposes[label] ?? ''),
              }),
            ),
      ),
    ),
    h(
      'details',
      { class: 'more', open: Object.keys(capabilityRoutes).length > 0 },
      h('summary', null, 'Route overrides by capability'),
      h(
        'div',
        { class: 'stack' },
        members(CAPABILITY_NAMES).map((name: Capability) =>
          h(Select, {
            key: name,
            label: CAPABILITY_NAMES[name],
            value: capabilityRoutes[name] ?? '',
            onChange: (route: string) => set({ capabilityRoutes: { ...capabilityRoutes, [name]: route } }),
            options: routeOptions('Default route', published, capabilityRoutes[name] ?? ''),
          }),
        ),
      ),
    ),
  ]
}

/** The published routes, and the one that is chosen now even when it is none of them. */
function routeOptions(none: string, published: readonly string[], chosen: string): readonly Option<string>[] {
  const names = chosen === '' || published.includes(chosen) ? published : [...published, chosen]
  return [{ value: '', label: none }, ...names]
}

interface PurposeForm {
  readonly purpose: string
  readonly description: string
  readonly enabled: boolean
}

/**
 * The fields to save, which replace those that there are.
 *
 * @param before whose demands stay: they are not edited here. Null: a new one
 */
export function purposeFields(
  { description, enabled }: Pick<PurposeForm, 'description' | 'enabled'>,
  before: PurposeAnswer | null,
): PurposeFields {
  const demands = before?.require
  return {
    description: description.trim(),
    enabled,
    ...(demands === undefined ? {} : { require: demands }),
  }
}

/** Creates or edits a purpose. */
export function EditPurpose(props: {
  readonly known: Known
  /** Null: a new one. */
  readonly before: PurposeAnswer | null
  readonly onSaved: (workspace: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { known, before, onSaved, onClose } = props
  const { id, purposes } = known.workspace
  const taken = purposes.map((one) => one.purpose)
  const { fields, set, submit, busy, error, bind } = useForm<PurposeForm>(
    () => ({
      purpose: before?.purpose ?? '',
      description: before?.description ?? '',
      enabled: before?.enabled ?? true,
    }),
    ({ purpose }) => ({ purpose: before === null ? newNameIssue(purpose, taken) : null }),
    async (form) => {
      const { purpose } = form
      const path = apiPath`/workspaces/${id}/purposes/${purpose}`
      onSaved(await api.put<WorkspaceAnswer>(path, purposeFields(form, before)))
      toast(`Purpose ${purpose} ${before === null ? 'created' : 'saved'}`)
      onClose()
    },
  )
  return h(
    FormDialog,
    {
      title: before === null ? 'Create purpose' : `Edit purpose ${before.purpose}`,
      action: before === null ? 'Create purpose' : 'Save',
      onSubmit: submit,
      onClose,
      busy,
      error,
      what: 'Not saved',
    },
    h(
      'div',
      { class: 'stack' },
      before === null
        ? h(Label, {
            ...bind('purpose'),
          })
        : null,
      h(TextInput, {
        label: 'Description',
        ...bind('description'),
        optional: true,
        maxLength: 1024,
        rows: 2,
        hint: 'Shown to callers in GET /v1/me.',
      }),
      h(Checkbox, {
        label: 'Enabled',
        checked: fields.enabled,
        onChange: (enabled: boolean) => set({ enabled }),
        hint: 'When off, requests that send it are routed as if they had no purpose.',
      }),
    ),
  )
}

function Label(props: Pick<TextInputProps, 'value' | 'onInput' | 'error'>) {
  return h(TextInput, {
    ...props,
    label: 'Label',
    mono: true,
    autofocus: true,
    required: true,
    maxLength: 64,
    placeholder: 'meetings',
    hint: 'Sent by callers. Can’t be changed later.',
  })
}

/** The workspace to edit, and the routes that its apps can use. */
export interface Known {
  readonly workspace: WorkspaceAnswer
  /** Names of the published ones. */
  readonly routes: readonly string[]
  /** The page of apps that is shown. */
  readonly listed: AppsAnswer
}
