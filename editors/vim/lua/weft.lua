-- Starts `weft policy serve` for policies, once in each Neovim. `vim.g.weft_command` is another command, as a list.
local weft = {}

local function config()
  local command = vim.g.weft_command or { 'weft', 'policy', 'serve' }
  return {
    name = 'weft',
    cmd = command,
    root_dir = vim.fn.getcwd(),
    on_attach = function(_, buffer)
      vim.api.nvim_buf_set_option(buffer, 'omnifunc', 'v:lua.vim.lsp.omnifunc')
    end,
  }
end

function weft.start()
  local wanted = config()
  if vim.fn.executable(wanted.cmd[1]) == 0 then
    return
  end
  -- vim.lsp.start came with Neovim 0.8.
  if vim.lsp.start then
    vim.lsp.start(wanted)
    return
  end
  local running = weft.client and vim.lsp.get_client_by_id(weft.client)
  if not running or running.is_stopped() then
    weft.client = vim.lsp.start_client(wanted)
  end
  if weft.client then
    vim.lsp.buf_attach_client(0, weft.client)
  end
end

return weft
