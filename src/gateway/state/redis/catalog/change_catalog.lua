-- Makes a change of the catalog, all of it or nothing.
--
-- KEYS catalog never
-- ARGV token expected steps audit token_ms
-- Reply the version of what is published after it, empty: a conflict
--
-- An empty `expected` is any. `steps` is a list in JSON of {do, id, owner, json, revision}, all of them texts. The
-- revision is that of the draft that is replaced, empty: there is to be none; of what is published that of the draft
-- that stays, empty: whichever there is goes. `audit` is one of {workspace, json}. The answer, also that of a conflict,
-- is kept for `token_ms`.

local answer = key('change', ARGV[1])
local answered = redis.call('GET', answer)
if answered then return answered end

-- The writes of all steps, which are made when each of them can be taken.
local writes = {}
local function write(...) table.insert(writes, { ... }) end
local is_published_anew = false

-- Records as the steps before leave them. `draft` is its revision, empty: there is none.
local records = {}
local function record_of(id)
  if not records[id] then
    local draft = field('drafts', id)
    records[id] = {
      owner = field('owners', id),
      draft = draft and string.match(draft, '^%d+') or '',
      revision = tonumber(field('revisions', id) or 0),
      is_published = field('published', id) ~= false,
      number = tonumber(field('numbers', id) or 0),
    }
  end
  return records[id]
end

-- A name that is free again may become another's.
local function own(record, id, owner)
  if record.owner == owner then return end
  record.owner = owner
  write('HSET', key('owners'), id, owner)
end

local function drop_draft(record, id)
  if record.draft == '' then return end
  record.draft = ''
  write('HDEL', key('drafts'), id)
end

local STEPS = {}

function STEPS.draft(record, id, owner, json)
  own(record, id, owner)
  record.revision = record.revision + 1
  record.draft = digits(record.revision)
  write('HSET', key('revisions'), id, record.draft)
  write('HSET', key('drafts'), id, stamped(record.revision, json))
end

STEPS.discard = drop_draft

function STEPS.publish(record, id, owner, json, kept)
  own(record, id, owner)
  record.number = record.number + 1
  local stamped_json = stamped(record.number, json)
  write('HSET', key('numbers'), id, digits(record.number))
  write('ZADD', key('versions', owner, id), digits(record.number), stamped_json)
  write('HSET', key('published'), id, stamped_json)
  record.is_published = true
  is_published_anew = true
  if kept == '' then drop_draft(record, id) end
end

function STEPS.remove(record, id)
  drop_draft(record, id)
  if not record.is_published then return end
  record.is_published = false
  is_published_anew = true
  write('HDEL', key('published'), id)
end

-- Returns whether the step could be taken.
local function take(step)
  local name, id, owner, json, revision = unpack(step)
  local record = record_of(id)
  local stands = record.draft ~= '' or record.is_published
  -- It stands in another's name.
  if stands and record.owner ~= owner then return false end
  local names_draft = name == 'draft' or (name == 'publish' and revision ~= '')
  if names_draft and record.draft ~= revision then return false end
  STEPS[name](record, id, owner, json, revision)
  return true
end

local function take_all()
  if ARGV[2] ~= '' and ARGV[2] ~= version() then return false end
  for _, step in ipairs(cjson.decode(ARGV[3])) do
    if not take(step) then return false end
  end
  return true
end

if not take_all() then
  redis.call('SET', answer, '', 'PX', ARGV[5])
  return ''
end

local next_version = version()
if is_published_anew then
  local count = digits((redis.call('HGET', catalog, 'count') or 0) + 1)
  local changed_at = time[1] .. '.' .. time[2]
  next_version = version_of(count, changed_at)
  write('HSET', catalog, 'count', count, 'changed_at', changed_at)
end
redis.call('SET', answer, next_version, 'PX', ARGV[5])
for _, command in ipairs(writes) do redis.call(unpack(command)) end
if is_published_anew then redis.pcall('PUBLISH', 'lk:jobs', 'settings') end
for _, line in ipairs(cjson.decode(ARGV[4])) do add_line(unpack(line)) end
return next_version
