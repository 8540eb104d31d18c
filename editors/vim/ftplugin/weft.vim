" Policies of weftline: comments, and in Neovim the language server.
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1

setlocal commentstring=#\ %s
setlocal comments=:#
" Names contain dots and dashes.
setlocal iskeyword=@,48-57,_,.,-
let b:undo_ftplugin = 'setlocal commentstring< comments< iskeyword<'

if has('nvim') && get(g:, 'weft_server', 1)
  lua require('weft').start()
endif
