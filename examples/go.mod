module github.com/levelstream/jsource/examples

go 1.26.0

replace github.com/levelstream/jsource => ../
