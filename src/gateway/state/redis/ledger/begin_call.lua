-- Claims an idempotency slot and sets money aside for a call: both or neither, and either may be asked alone.
--
-- KEYS slot void account grants spent reservations leases charged end_user lost
-- ARGV token fingerprint slot_lease_ms slot_ttl_ms
--      reserves key_id platform spend lease_ms key_budget workspace_budget
--      grant_id grant trial trial_ends_ms
--      claim end_user_account end_user_budget
-- Reply {'begun'} | {'running'} | {'burned'} | {'stored', fingerprint, result} | {'refused', why}
--
-- An empty `fingerprint` asks for no slot, `reserves` = '0' for no money; an empty budget, grant_id or trial: there is
-- none. Amounts are whole micro-USD. A slot whose lease ran out is burned, not free: the node that held it may have
-- reached the provider before it died. Its key outlives the lease by the time that a burned slot is remembered, so
-- burning need not touch that. A token that the slot or the reservations know already began before: its answer was
-- lost. Reservations past their lease are charged; a few at a time, because others wait.
--
-- `claim` = '0': the token is used once. Else it is a job's, and its reservation passes from claim to claim: a later one
-- takes it over as it is, an earlier one is refused. One that was charged, or whose lease ended, is in `charged` until
-- the score there, and sets nothing aside any more.
--
-- An empty `end_user_account`: no end user has a budget. `end_user` is the month and the micro-USD that it spent then,
-- which the next month begins anew. Its account stands behind the key in the reservation.

local SWEPT_AT_ONCE = 20

local slot, void, account, grants, spent, reservations, leases, charged, end_user, lost = unpack(KEYS)
local money = { account = account, spent = spent, reservations = reservations, leases = leases, charged = charged,
  lost = lost }
local token, fingerprint, key_id = ARGV[1], ARGV[2], ARGV[6]
local platform, spend = tonumber(ARGV[7]), tonumber(ARGV[8])
local claim, end_user_account = tonumber(ARGV[16]), ARGV[17]

-- The slot decides first: what is running or stored is answered whatever the account holds.
if fingerprint ~= '' then
  local held = redis.call('HMGET', slot, 'state', 'token', 'lease_until_ms', 'fingerprint', 'result')
  local state = held[1]
  if state == 'running' and tonumber(held[3]) <= now_ms then
    redis.call('HSET', slot, 'state', 'burned', 'token', '')
    return { 'burned' }
  end
  if state == 'running' and held[2] == token then return { 'begun' } end
  if state == 'stored' then return { 'stored', held[4], held[5] } end
  if state then return { state } end
end

if redis.call('EXISTS', void) == 1 then return { 'refused', 'voided' } end

local reserves = ARGV[5] == '1'
local record = reserves and redis.call('HGET', reservations, token)
if record then
  if claim == 0 then
    reserves = false
  else
    local lease_until_ms = tonumber(redis.call('ZSCORE', leases, token) or now_ms)
    local by, taken = string.match(record, '^(%d+) (.*)$')
    if lease_until_ms <= now_ms then
      expire(money, token, lease_until_ms)
    elseif tonumber(by) > claim then
      return { 'refused', 'voided' }
    else
      redis.call('HSET', reservations, token, digits(claim) .. ' ' .. taken)
      redis.call('ZADD', leases, digits(math.max(lease_until_ms, now_ms + ARGV[9])), token)
      reserves = false
    end
  end
end
if reserves and claim > 0 then
  reserves = tonumber(redis.call('ZSCORE', charged, token) or 0) <= now_ms
end

if reserves then
  expire_due(money, SWEPT_AT_ONCE)
  book_grant(account, grants, ARGV[12], ARGV[13])

  local purse = 'none'
  if platform > 0 then
    local trial = tonumber(ARGV[14])
    local tried = trial and now_ms < tonumber(ARGV[15])
    if tried and trial - amount(account, 'trial_spent') >= platform then
      purse = 'trial'
    elseif amount(account, 'credits') >= platform then
      purse = 'credits'
    else
      return { 'refused', trial and redis.call('HLEN', grants) == 0 and 'trial' or 'credits' }
    end
  end

  local month = month_of(now_ms)
  local is_new_month = redis.call('HGET', spent, 'month') ~= month
  local function is_over(budget, field)
    local before = is_new_month and 0 or amount(spent, field)
    return budget and before + spend > budget
  end
  if is_over(tonumber(ARGV[10]), 'key:' .. key_id) then return { 'refused', 'key_budget' } end
  if is_over(tonumber(ARGV[11]), 'total') then return { 'refused', 'workspace_budget' } end
  if end_user_account ~= '' then
    local counted_in, micros = string.match(redis.call('GET', end_user) or '', '^(%S+) (%d+)$')
    local after = (counted_in == month and tonumber(micros) or 0) + spend
    if after > tonumber(ARGV[18]) then return { 'refused', 'end_user_budget' } end
    redis.call('SET', end_user, month .. ' ' .. digits(after), 'PX', SPENT_TTL_MS)
  end

  give(account, purse, -platform)
  add(account, 'reserved', platform)
  begin_month(account, spent)
  spend_more(spent, month, key_id, spend)
  redis.call('PEXPIRE', spent, SPENT_TTL_MS)
  local reserved = { digits(claim), purse, digits(platform), digits(spend), month, key_id }
  if end_user_account ~= '' then reserved[7] = end_user_account end
  redis.call('HSET', reservations, token, table.concat(reserved, ' '))
  redis.call('ZADD', leases, digits(now_ms + ARGV[9]), token)
end

if fingerprint ~= '' then
  local lease_until_ms = now_ms + ARGV[3]
  redis.call('HSET', slot, 'state', 'running', 'token', token, 'fingerprint', fingerprint,
    'lease_until_ms', digits(lease_until_ms))
  redis.call('PEXPIREAT', slot, digits(lease_until_ms + ARGV[4]))
end
return { 'begun' }
